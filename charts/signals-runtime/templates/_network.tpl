{{/* Which ports the pods must reach, from the addresses among the values. Ports are given with blanks between. */}}

{{- define "signals-runtime.egressTo" -}}
{{- with index . 1 }}
to:
  {{- tpl (toYaml .) (index $ 0) | nindent 2 }}
{{- end }}
{{- end }}

{{/* With (list context peers ports): nothing without ports. */}}
{{- define "signals-runtime.egressRule" -}}
{{- $ports := splitList " " (index . 2) | compact | uniq }}
{{- if $ports }}
- ports:
    {{- range $ports }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
  {{- include "signals-runtime.egressTo" (list (index . 0) (index . 1)) | nindent 2 }}
{{- end }}
{{- end }}

{{/* The port of a URL, or what is usual for its scheme. */}}
{{- define "signals-runtime.portOf" -}}
{{- $url := urlParse . }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- if $port }}{{ $port }}{{ else }}{{ get (dict "http" "80" "https" "443" "redis" "6379" "rediss" "6379") $url.scheme }}{{ end }}
{{- end }}

{{- define "signals-runtime.redisPorts" -}}
{{- $redis := .Values.redis }}
{{- if ne $redis.mode "embedded" }}
{{- $ports := list }}
{{- if and (eq $redis.mode "standalone") $redis.url }}
{{- $ports = append $ports (include "signals-runtime.portOf" $redis.url) }}
{{- end }}
{{- range concat (ternary $redis.sentinel.nodes list (eq $redis.mode "sentinel")) (ternary $redis.cluster.nodes list (eq $redis.mode "cluster")) }}
{{- $ports = append $ports (regexFind "[0-9]+$" .) }}
{{- end }}
{{- join " " (concat $ports .Values.networkPolicy.egress.redisPorts) }}
{{- end }}
{{- end }}

{{- define "signals-runtime.otlpPorts" -}}
{{- $ports := list }}
{{- range list .Values.telemetry.otlp.endpoint .Values.telemetry.otlp.tracesEndpoint .Values.telemetry.otlp.metricsEndpoint }}
{{- with . }}{{ $ports = append $ports (include "signals-runtime.portOf" .) }}{{ end }}
{{- end }}
{{- join " " $ports }}
{{- end }}

{{- define "signals-runtime.agentPorts" -}}
{{- $ports := list }}
{{- range .Values.agents.remote }}{{ $ports = append $ports (include "signals-runtime.portOf" .url) }}{{ end }}
{{- join " " $ports }}
{{- end }}
