# The image: Node, this package and what it depends on; no shell, no package manager, nothing that writes. With Docker:
#
#   docker build -t signals-runtime .
#
# or without a daemon: buildah bud --isolation chroot -t signals-runtime .
#
# NODE_IMAGE is any Linux image with Node 24 and npm; of it only Node and its libraries get into the result.
ARG NODE_IMAGE=docker.io/library/node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
# No scripts: nothing that is needed here has any, and the Node of the image is the one to use.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && find dist \( -name '*.d.ts' -o -name '*.map' \) -delete

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /build
COPY package.json package-lock.json ./
# What only compilers and debuggers read is more than half of it.
RUN npm ci --omit=dev --omit=peer --ignore-scripts --no-audit --no-fund \
  && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.md' \) -delete \
  && rm -f node_modules/.package-lock.json \
  && find node_modules -type d -empty -delete

# What of the image is needed to run Node: itself, the libraries that it is linked with, name resolution, certificates.
FROM ${NODE_IMAGE} AS system
RUN set -eu; \
  node="$(readlink -f "$(command -v node)")"; \
  mkdir -p /system/usr/local/bin /system/etc/ssl/certs /system/app; \
  mkdir -m 1777 /system/tmp; \
  cp "$node" /system/usr/local/bin/node; \
  for library in $(ldd "$node" | grep -o '/[^ )]*'); do \
    mkdir -p "/system$(dirname "$library")"; \
    cp -L "$library" "/system$library"; \
  done; \
  # Before glibc 2.34 it loads these by name.
  for library in $(ls /lib/*/libnss_files.so.2 /lib/*/libnss_dns.so.2 /lib/*/libresolv.so.2 2>/dev/null || true); do \
    mkdir -p "/system$(dirname "$library")"; \
    cp -L "$library" "/system$library"; \
  done; \
  for file in /etc/os-release /etc/ssl/certs/ca-certificates.crt; do \
    if [ -e "$file" ]; then cp -L "$file" "/system$file"; fi; \
  done; \
  echo 'hosts: files dns' > /system/etc/nsswitch.conf; \
  echo 'signals:x:10001:10001::/app:/sbin/nologin' > /system/etc/passwd; \
  echo 'signals:x:10001:' > /system/etc/group

FROM scratch
ARG VERSION=0.0.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="signals-runtime" \
  org.opencontainers.image.description="Runs AI agent threads on many pods: one owner per thread, no signal lost, every lease visible." \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.created="${CREATED}"
COPY --from=system /system/ /
WORKDIR /app
COPY --from=dependencies /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY package.json LICENSE ./
ENV NODE_ENV=production PATH=/usr/local/bin
# By number, so that runAsNonRoot can be checked.
USER 10001:10001
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
# Node is process 1: it gets the signals itself.
ENTRYPOINT ["/usr/local/bin/node", "/app/dist/main.js"]
