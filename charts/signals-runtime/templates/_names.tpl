{{/* Names, labels and the image. */}}

{{- define "signals-runtime.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Room is left for the suffixes of the other objects. */}}
{{- define "signals-runtime.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- $name := include "signals-runtime.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "signals-runtime.tuningName" -}}
{{- default (printf "%s-tuning" (include "signals-runtime.fullname" .)) .Values.settings.tuning.name }}
{{- end }}

{{- define "signals-runtime.settingsName" -}}
{{- printf "%s-settings" (include "signals-runtime.fullname" .) }}
{{- end }}

{{- define "signals-runtime.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "signals-runtime.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "signals-runtime.instanceLabels" -}}
app.kubernetes.io/name: {{ include "signals-runtime.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of the runtime's pods, and of them only: the pod of `helm test` is another component. Never changes: selectors can't. */}}
{{- define "signals-runtime.selectorLabels" -}}
{{ include "signals-runtime.instanceLabels" . }}
app.kubernetes.io/component: runtime
{{- end }}

{{/* With (dict "context" $ "component" "..."). */}}
{{- define "signals-runtime.labels" -}}
{{- $chart := printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{ include "signals-runtime.instanceLabels" .context }}
app.kubernetes.io/component: {{ default "runtime" .component }}
app.kubernetes.io/version: {{ .context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .context.Release.Service }}
helm.sh/chart: {{ $chart }}
{{- with .context.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* With (dict "context" $ "of" annotations). */}}
{{- define "signals-runtime.annotations" -}}
{{- with merge (dict) (default dict .of) .context.Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "signals-runtime.image" -}}
{{- $registry := default .Values.global.imageRegistry .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "signals-runtime.imagePullSecrets" -}}
{{- with concat (default list .Values.global.imagePullSecrets) .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- range . }}
  {{- if kindIs "string" . }}
  - name: {{ . }}
  {{- else }}
  - {{ toYaml . }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}
