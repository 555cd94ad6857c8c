{{/* Volumes, their mounts and the spread of the pods. */}}

{{- define "signals-runtime.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if eq .Values.settings.source "mount" }}
- name: settings
  configMap:
    name: {{ include "signals-runtime.settingsName" . }}
{{- if .Values.settings.tuning.enabled }}
- name: tuning
  configMap:
    name: {{ include "signals-runtime.tuningName" . }}
    optional: true
{{- end }}
{{- end }}
{{- $ca := .Values.trustedCa }}
{{- if $ca.existingSecret }}
- name: trusted-ca
  secret:
    secretName: {{ $ca.existingSecret }}
    items:
      - key: {{ $ca.key }}
        path: {{ $ca.key }}
{{- else if $ca.existingConfigMap }}
- name: trusted-ca
  configMap:
    name: {{ $ca.existingConfigMap }}
    items:
      - key: {{ $ca.key }}
        path: {{ $ca.key }}
{{- end }}
{{- $module := .Values.agents.module }}
{{- if or $module.source $module.existingConfigMap }}
- name: agents
  configMap:
    name: {{ default (printf "%s-agents" (include "signals-runtime.fullname" .)) $module.existingConfigMap }}
{{- else if $module.image.reference }}
- name: agents
  image:
    reference: {{ $module.image.reference }}
    pullPolicy: {{ $module.image.pullPolicy }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end }}

{{/* Directories, not files: a file that is mounted by subPath never changes. */}}
{{- define "signals-runtime.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if eq .Values.settings.source "mount" }}
- name: settings
  mountPath: /etc/signals-runtime/settings
  readOnly: true
{{- if .Values.settings.tuning.enabled }}
- name: tuning
  mountPath: /etc/signals-runtime/tuning
  readOnly: true
{{- end }}
{{- end }}
{{- if or .Values.trustedCa.existingSecret .Values.trustedCa.existingConfigMap }}
- name: trusted-ca
  mountPath: /etc/signals-runtime/trusted-ca
  readOnly: true
{{- end }}
{{- with include "signals-runtime.moduleDirectory" . }}
- name: agents
  mountPath: {{ . }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Each revision by itself: else the pods that a rollout is about to remove decide where the new ones go. */}}
{{- define "signals-runtime.topologySpread" -}}
{{- if .Values.topologySpreadConstraints }}
{{- tpl (toYaml .Values.topologySpreadConstraints) . }}
{{- else if .Values.topologySpread.enabled }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: {{ $.Values.topologySpread.whenUnsatisfiable }}
  labelSelector:
    matchLabels:
      {{- include "signals-runtime.selectorLabels" $ | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end }}

{{/* Of what is read once, at start. The settings are not among it: they are followed. */}}
{{- define "signals-runtime.checksums" -}}
{{- if include "signals-runtime.ownSecret" . }}
checksum/secret: {{ list .Values.redis.auth.username .Values.redis.auth.password .Values.redis.auth.sentinelPassword .Values.auth.tokens | toJson | sha256sum }}
{{- end }}
{{- with .Values.agents.module.source }}
checksum/agents: {{ sha256sum . }}
{{- end }}
{{- end }}
