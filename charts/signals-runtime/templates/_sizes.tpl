{{/* Numbers that follow from others. */}}

{{- define "signals-runtime.embedded" -}}
{{- if and (eq .Values.redis.mode "embedded") (not .Values.backend.module) }}true{{ end }}
{{- end }}

{{- define "signals-runtime.autoscaled" -}}
{{- if or .Values.autoscaling.enabled .Values.keda.enabled }}true{{ end }}
{{- end }}

{{- define "signals-runtime.replicas" -}}
{{- if kindIs "invalid" .Values.replicaCount }}
{{- eq .Values.redis.mode "embedded" | ternary 1 3 }}
{{- else }}
{{- .Values.replicaCount }}
{{- end }}
{{- end }}

{{/* What a stop may take after the runs: agents that are aborted 5 s, requests 2 s, Kubernetes 1 s, store 2 s, telemetry 3 s. */}}
{{- define "signals-runtime.stopSeconds" -}}13{{- end }}

{{/* The kubelet's and the scheduler's own share. */}}
{{- define "signals-runtime.graceMarginSeconds" -}}5{{- end }}

{{- define "signals-runtime.leastGraceSeconds" -}}
{{- $drain := divf (.Values.settings.drainTimeoutMs | float64) 1000 | ceil | int }}
{{- add .Values.drain.preStopSleepSeconds .Values.drain.delaySeconds $drain (include "signals-runtime.stopSeconds" . | int) (include "signals-runtime.graceMarginSeconds" . | int) }}
{{- end }}

{{- define "signals-runtime.graceSeconds" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- include "signals-runtime.leastGraceSeconds" . }}
{{- else }}
{{- .Values.terminationGracePeriodSeconds | int }}
{{- end }}
{{- end }}

{{/* From SIGTERM to SIGKILL: what preStop takes is over by then. */}}
{{- define "signals-runtime.graceAfterTermMs" -}}
{{- mul (sub (include "signals-runtime.graceSeconds" . | int) .Values.drain.preStopSleepSeconds) 1000 }}
{{- end }}

{{/* What the instance asks of the API server. */}}
{{- define "signals-runtime.usesApi" -}}
{{- if or (eq .Values.settings.source "api") .Values.events.enabled .Values.podDeletionCost.enabled }}true{{ end }}
{{- end }}

{{- define "signals-runtime.ownSecret" -}}
{{- $redis := .Values.redis.auth }}
{{- if or $redis.username $redis.password $redis.sentinelPassword .Values.auth.tokens }}true{{ end }}
{{- end }}

{{/* The module's directory in the container, if it is mounted. */}}
{{- define "signals-runtime.moduleDirectory" -}}
{{- $module := .Values.agents.module }}
{{- if or $module.source $module.existingConfigMap $module.image.reference }}/opt/agents{{ end }}
{{- end }}
