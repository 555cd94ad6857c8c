{{/* The environment of the container. What is not set here keeps the runtime's default: an empty variable would be refused. */}}

{{- define "signals-runtime.env" -}}
{{- include "signals-runtime.podEnv" . }}
{{- include "signals-runtime.serverEnv" . }}
{{- include "signals-runtime.redisEnv" . }}
{{- include "signals-runtime.settingsEnv" . }}
{{- include "signals-runtime.agentsEnv" . }}
{{- include "signals-runtime.telemetryEnv" . }}
{{- end }}

{{/* With (list name value): nothing for a value that is null or empty. 0 and false are values. */}}
{{- define "signals-runtime.variable" -}}
{{- $value := index . 1 }}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "string" $value) (eq $value ""))) }}
- name: {{ index . 0 }}
  value: {{ include "signals-runtime.text" $value | quote }}
{{- end }}
{{- end }}

{{/* Helm reads numbers as floats, and writes large ones as 1e+06. */}}
{{- define "signals-runtime.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* With (list name secret key). */}}
{{- define "signals-runtime.secretVariable" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end }}

{{- define "signals-runtime.podEnv" -}}
{{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" "NODE_NAME" "spec.nodeName" }}
- name: {{ $name }}
  valueFrom:
    fieldRef:
      fieldPath: {{ $path }}
{{- end }}
- name: DEPLOYMENT_NAME
  value: {{ include "signals-runtime.fullname" . }}
{{- end }}

{{- define "signals-runtime.serverEnv" -}}
{{- $server := .Values.server }}
{{- $mailbox := .Values.mailbox }}
{{- $variables := list
  (list "HOST" $server.host)
  (list "PORT" $server.port)
  (list "METRICS_PORT" $server.metricsPort)
  (list "BODY_LIMIT_BYTES" $server.bodyLimitBytes)
  (list "MAX_RUNS" $server.maxRuns)
  (list "DRAIN_DELAY_MS" (mul .Values.drain.delaySeconds 1000))
  (list "TERMINATION_GRACE_MS" (include "signals-runtime.graceAfterTermMs" .))
  (list "INBOX_MAX_ENTRIES" $mailbox.maxEntries)
  (list "INBOX_MAX_BYTES" $mailbox.maxBytes)
  (list "SIGNAL_MAX_BYTES" $mailbox.signalMaxBytes)
  (list "DEDUPE_WINDOW_MS" $mailbox.dedupeWindowMs)
  (list "OUTPUT_MAX_CHUNKS" $mailbox.outputMaxChunks)
  (list "OUTPUT_RETENTION_MS" $mailbox.outputRetentionMs)
  (list "MAX_DELIVERY_ATTEMPTS" $mailbox.maxDeliveryAttempts) }}
{{- range $variables }}{{ include "signals-runtime.variable" . }}{{ end }}
{{- if .Values.auth.existingSecret }}
{{ include "signals-runtime.secretVariable" (list "AUTH_TOKENS" .Values.auth.existingSecret .Values.auth.key) }}
{{- else if .Values.auth.tokens }}
{{ include "signals-runtime.secretVariable" (list "AUTH_TOKENS" (include "signals-runtime.fullname" .) "auth-tokens") }}
{{- end }}
{{- if or .Values.trustedCa.existingSecret .Values.trustedCa.existingConfigMap }}
- name: NODE_EXTRA_CA_CERTS
  value: {{ printf "/etc/signals-runtime/trusted-ca/%s" .Values.trustedCa.key }}
{{- end }}
{{- end }}

{{- define "signals-runtime.redisEnv" -}}
{{- include "signals-runtime.variable" (list "BACKEND_MODULE" .Values.backend.module) }}
{{- $redis := .Values.redis }}
{{- $auth := $redis.auth }}
{{- $own := include "signals-runtime.fullname" . }}
{{- if ne $redis.mode "embedded" }}
{{- if eq $redis.mode "standalone" }}
{{- if and $auth.existingSecret $auth.urlKey }}
{{ include "signals-runtime.secretVariable" (list "REDIS_URL" $auth.existingSecret $auth.urlKey) }}
{{- else }}
{{- include "signals-runtime.variable" (list "REDIS_URL" $redis.url) }}
{{- end }}
{{- else if eq $redis.mode "sentinel" }}
{{- include "signals-runtime.variable" (list "REDIS_SENTINELS" (join "," $redis.sentinel.nodes)) }}
{{- include "signals-runtime.variable" (list "REDIS_SENTINEL_NAME" $redis.sentinel.name) }}
{{- else }}
{{- include "signals-runtime.variable" (list "REDIS_CLUSTER_NODES" (join "," $redis.cluster.nodes)) }}
{{- end }}
{{- range list (list "REDIS_USERNAME" $auth.usernameKey $auth.username "redis-username") (list "REDIS_PASSWORD" $auth.passwordKey $auth.password "redis-password") (list "REDIS_SENTINEL_PASSWORD" $auth.sentinelPasswordKey $auth.sentinelPassword "redis-sentinel-password") }}
{{- if and $auth.existingSecret (index . 1) }}
{{ include "signals-runtime.secretVariable" (list (index . 0) $auth.existingSecret (index . 1)) }}
{{- else if index . 2 }}
{{ include "signals-runtime.secretVariable" (list (index . 0) $own (index . 3)) }}
{{- end }}
{{- end }}
{{- if $redis.tls.enabled }}
- name: REDIS_TLS
  value: "true"
{{- end }}
{{- include "signals-runtime.variable" (list "REDIS_KEY_PREFIX" $redis.keyPrefix) }}
{{- end }}
{{- end }}

{{- define "signals-runtime.settingsEnv" -}}
{{- $api := eq .Values.settings.source "api" }}
{{- include "signals-runtime.variable" (list (ternary "SETTINGS_CONFIGMAP" "SETTINGS_DIR" $api) (ternary (include "signals-runtime.settingsName" .) "/etc/signals-runtime/settings" $api)) }}
{{- if .Values.settings.tuning.enabled }}
{{- include "signals-runtime.variable" (list (ternary "SETTINGS_TUNING_CONFIGMAP" "SETTINGS_TUNING_DIR" $api) (ternary (include "signals-runtime.tuningName" .) "/etc/signals-runtime/tuning" $api)) }}
{{- end }}
{{- include "signals-runtime.variable" (list "POD_EVENTS" .Values.events.enabled) }}
{{- include "signals-runtime.variable" (list "POD_DELETION_COST" .Values.podDeletionCost.enabled) }}
{{- end }}

{{- define "signals-runtime.agentsEnv" -}}
{{- $module := .Values.agents.module }}
{{- with include "signals-runtime.moduleDirectory" . }}
{{- include "signals-runtime.variable" (list "AGENT_MODULE" (printf "%s/%s" . $module.file)) }}
{{- else }}
{{- include "signals-runtime.variable" (list "AGENT_MODULE" $module.path) }}
{{- end }}
{{- $urls := list }}
{{- range .Values.agents.remote }}{{ $urls = append $urls (printf "%s=%s" .id .url) }}{{ end }}
{{- include "signals-runtime.variable" (list "AGENT_URLS" (join "," $urls)) }}
{{- end }}

{{- define "signals-runtime.telemetryEnv" -}}
{{- $telemetry := .Values.telemetry }}
{{- $attributes := list }}
{{- range $name, $value := $telemetry.resourceAttributes }}
{{- /* Blanks are + in a query and %20 here. */}}
{{- $attributes = append $attributes (printf "%s=%s" $name ($value | toString | urlquery | replace "+" "%20")) }}
{{- end }}
{{- $otlp := $telemetry.otlp }}
{{- $traces := $telemetry.traces }}
{{- $variables := list
  (list "CLUSTER_NAME" $telemetry.clusterName)
  (list "OTEL_SERVICE_NAME" $telemetry.serviceName)
  (list "OTEL_RESOURCE_ATTRIBUTES" (join "," $attributes))
  (list "OTEL_EXPORTER_OTLP_ENDPOINT" $otlp.endpoint)
  (list "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" $otlp.tracesEndpoint)
  (list "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" $otlp.metricsEndpoint)
  (list "OTEL_TRACES_SAMPLER" $traces.sampler)
  (list "OTEL_TRACES_SAMPLER_ARG" $traces.samplerArg)
  (list "TRACE_HASH_IDS" $traces.hashIds)
  (list "TRACE_RENEWALS" $traces.renewals)
  (list "TRACE_RUNS" $traces.runs)
  (list "TRACE_PROMPT_LIMIT_MS" $traces.promptLimitMs) }}
{{- range $variables }}{{ include "signals-runtime.variable" . }}{{ end }}
{{- with $otlp.headers.existingSecret }}
{{ include "signals-runtime.secretVariable" (list "OTEL_EXPORTER_OTLP_HEADERS" . $otlp.headers.key) }}
{{- end }}
{{- end }}
