#!/usr/bin/env bash
# The local stack without Docker: Redis, two runtimes, traffic and Prometheus with our alerts, all on the loopback, from what
# Debian's packages have (redis-server, prometheus, curl). Ctrl-C stops all that it started and removes what it wrote.
#
#   deploy/local/run.sh [--faults] [--seconds N] [--rate N]
#
#   --faults      kills a runtime every 45 seconds and starts it again
#   --seconds N   ends by itself
#   --rate N      signals a second (default 4)
#
# With OTEL_EXPORTER_OTLP_ENDPOINT set, the runtimes send their traces there.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
node="$root/node_modules/.bin/node"
redis_port=17379 prometheus_port=17090
ports=(17080 17081) metrics_ports=(17464 17465) names=(a b)

faults=no seconds=0 rate=4
while [[ $# -gt 0 ]]; do
  case "$1" in
    --faults) faults=yes ;;
    --seconds) seconds="${2:?--seconds needs a number}"; shift ;;
    --rate) rate="${2:?--rate needs a number}"; shift ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  esac
  shift
done

for program in redis-server prometheus curl; do
  command -v "$program" > /dev/null || { echo "$program is needed (Debian: apt-get install $program)" >&2; exit 1; }
done
[[ -x "$node" ]] || { echo "run npm ci first" >&2; exit 1; }
for port in "$redis_port" "$prometheus_port" "${ports[@]}" "${metrics_ports[@]}"; do
  if (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; then echo "port $port is in use" >&2; exit 1; fi
done

work="$(mktemp -d)"
mkdir "$work/settings"
declare -A pids=()

stop() { # name, signal: waits until it has gone
  local pid="${pids[$1]:-}"
  [[ -n "$pid" ]] || return 0
  unset "pids[$1]"
  kill "-$2" "$pid" 2> /dev/null || true
  wait "$pid" 2> /dev/null || true
}

finish() {
  trap - EXIT
  trap '' INT TERM
  echo "stopping: the runtimes drain first"
  stop traffic TERM
  for name in "${names[@]}"; do # together, not one after the other
    if [[ -n "${pids[$name]:-}" ]]; then kill -TERM "${pids[$name]}" 2> /dev/null || true; fi
  done
  for name in "${names[@]}"; do stop "$name" CONT; done
  stop prometheus TERM
  stop redis TERM
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Each in a process group of its own: Ctrl-C is for this script, which stops them in order.
start() { # name, command...
  local name="$1"; shift
  set -m
  "$@" >> "$work/$name.log" 2>&1 < /dev/null &
  set +m
  pids[$name]=$!
}

start_runtime() { # index
  local at="$1" name="${names[$1]}"
  start "$name" env HOST=127.0.0.1 PORT="${ports[$at]}" METRICS_PORT="${metrics_ports[$at]}" INSTANCE_NAME="$name" \
    REDIS_URL="redis://127.0.0.1:$redis_port" AGENT_MODULE="$here/agent.ts" SETTINGS_DIR="$work/settings" \
    DRAIN_DELAY_MS=6000 MASTRA_AGENT_THREAD_LEASE_DRAIN_TIMEOUT_MS=10000 "$node" "$root/src/main.ts"
}

await() { # what, url
  for _ in $(seq 120); do
    if curl -sf "$2" > /dev/null; then return; fi
    sleep 0.5
  done
  echo "$1 does not answer; its log:" >&2
  tail -n 20 "$work/$1.log" >&2
  exit 1
}

start redis redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$work" --save '' --appendonly no
start_runtime 0
start_runtime 1
start prometheus prometheus --config.file="$here/prometheus.yaml" --storage.tsdb.path="$work/prometheus" \
  --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn
await a "http://127.0.0.1:${ports[0]}/readyz"
await b "http://127.0.0.1:${ports[1]}/readyz"
await prometheus "http://127.0.0.1:$prometheus_port/-/ready"
start traffic "$node" "$here/traffic.ts" "$rate" "http://127.0.0.1:${ports[0]}" "http://127.0.0.1:${ports[1]}"

cat << END
runtimes     http://127.0.0.1:${ports[0]}  http://127.0.0.1:${ports[1]}   (try /v1/threads, /v1/settings)
metrics      http://127.0.0.1:${metrics_ports[0]}/metrics
Prometheus   http://127.0.0.1:$prometheus_port/alerts
logs         $work/*.log
settings     echo 20000 > $work/settings/MASTRA_AGENT_THREAD_LEASE_TTL_MS
Ctrl-C stops everything.
END

for (( second = 1; seconds == 0 || second <= seconds; second++ )); do
  sleep 1
  for name in "${!pids[@]}"; do
    if ! kill -0 "${pids[$name]}" 2> /dev/null; then
      echo "$name has ended; its log:" >&2
      tail -n 20 "$work/$name.log" >&2
      exit 1
    fi
  done
  if [[ "$faults" == yes ]] && (( second % 45 == 0 )); then
    echo "killing b, and starting it again"
    stop b KILL
    start_runtime 1
  fi
  if (( second % 10 == 0 )); then tail -n 1 "$work/traffic.log"; fi
done
