{{/*
What can't work is refused here, all of it at once, with the value's name, what it held and what is allowed. What one value may
be by itself is in values.schema.json.
*/}}

{{- define "signals-runtime.validate" -}}
{{- $problems := list }}
{{- range list "redis" "backend" "scaling" "disruption" "settings" "drain" "access" "agents" "monitoring" "environment" }}
{{- $found := include (printf "signals-runtime.problems.%s" .) $ }}
{{- $problems = concat $problems (splitList "\n" $found | compact) }}
{{- end }}
{{- if $problems }}
{{- fail (printf "these values can't work:\n- %s" (join "\n- " $problems)) }}
{{- end }}
{{- end }}

{{/* Each prints one problem a line, or nothing. */}}

{{- define "signals-runtime.problems.redis" -}}
{{- $redis := .Values.redis }}
{{- $auth := $redis.auth }}
{{- $addresses := dict "standalone" (or $redis.url $auth.urlKey) "sentinel" (or $redis.sentinel.nodes $redis.sentinel.name) "cluster" $redis.cluster.nodes }}
{{- range $mode, $given := $addresses }}
{{- if and $given (ne $mode $redis.mode) }}
{{ printf "redis.mode is %s, but the address of %s is given; set redis.mode=%s, or leave that address out" $redis.mode $mode $mode }}
{{- end }}
{{- end }}
{{- if eq $redis.mode "standalone" }}
{{- if and $auth.urlKey (not $auth.existingSecret) }}
redis.auth.urlKey is a key of redis.auth.existingSecret, which is not set
{{- else if and $redis.url $auth.urlKey }}
redis.url and redis.auth.urlKey are both set; one of the two is allowed
{{- else if not (or $redis.url $auth.urlKey) }}
redis.url is empty; redis.mode standalone needs redis://host:port, or redis.auth.existingSecret and redis.auth.urlKey
{{- else if regexMatch "://[^/@]*@" $redis.url }}
redis.url holds a login, which everybody could read in the Deployment; use redis.auth, or redis.auth.urlKey for the whole address
{{- end }}
{{- end }}
{{- if eq $redis.mode "sentinel" }}
{{- if not (and $redis.sentinel.nodes $redis.sentinel.name) }}
redis.mode sentinel needs redis.sentinel.nodes (host:port) and redis.sentinel.name
{{- end }}
{{- else if or $auth.sentinelPassword $auth.sentinelPasswordKey }}
{{ printf "a password for Sentinel is given, and redis.mode is %s" $redis.mode }}
{{- end }}
{{- if and (eq $redis.mode "cluster") (not $redis.cluster.nodes) }}
redis.mode cluster needs redis.cluster.nodes (host:port)
{{- end }}
{{- if and $auth.existingSecret (or $auth.username $auth.password $auth.sentinelPassword) }}
redis.auth.existingSecret and values of redis.auth are both set; one of the two is allowed
{{- end }}
{{- if and (eq $redis.mode "embedded") (or $auth.existingSecret $auth.username $auth.password $redis.tls.enabled) }}
redis.mode is embedded, but redis.auth or redis.tls is set; set redis.mode and the address
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.backend" -}}
{{- if and .Values.backend.module (ne .Values.redis.mode "embedded") }}
{{ printf "backend.module is set beside redis.mode %s; one of the two keeps the threads" .Values.redis.mode }}
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.scaling" -}}
{{- $hpa := .Values.autoscaling }}
{{- $keda := .Values.keda }}
{{- if and $hpa.enabled $keda.enabled }}
autoscaling.enabled and keda.enabled are both true; KEDA makes an autoscaler of its own, so one of the two is allowed
{{- end }}
{{- if include "signals-runtime.embedded" . }}
{{- if include "signals-runtime.autoscaled" . }}
autoscaling and keda need Redis: with redis.mode embedded each pod would have threads of its own
{{- end }}
{{- if gt (include "signals-runtime.replicas" . | int) 1 }}
{{ printf "replicaCount is %v; with redis.mode embedded 1 is allowed: each pod would have threads of its own. Set redis.mode and the address" .Values.replicaCount }}
{{- end }}
{{- end }}
{{- if and $hpa.enabled (gt (int $hpa.minReplicas) (int $hpa.maxReplicas)) }}
{{ printf "autoscaling.minReplicas is %v, more than autoscaling.maxReplicas (%v)" $hpa.minReplicas $hpa.maxReplicas }}
{{- end }}
{{- if and $hpa.enabled (not (or $hpa.targetCPUUtilization $hpa.targetMemoryUtilization $hpa.metrics)) }}
autoscaling has no metric; set autoscaling.targetCPUUtilization, targetMemoryUtilization or metrics
{{- end }}
{{- range $resource, $target := dict "cpu" $hpa.targetCPUUtilization "memory" $hpa.targetMemoryUtilization }}
{{- if and $hpa.enabled $target (not (dig "requests" $resource "" $.Values.resources)) }}
{{ printf "autoscaling scales on %s, a share of the request, and resources.requests.%s is not set" $resource $resource }}
{{- end }}
{{- end }}
{{- if and $keda.enabled (not $keda.triggers) }}
keda.triggers is empty; at least one is needed
{{- end }}
{{- if and $keda.enabled (gt (int $keda.minReplicaCount) (int $keda.maxReplicaCount)) }}
{{ printf "keda.minReplicaCount is %v, more than keda.maxReplicaCount (%v)" $keda.minReplicaCount $keda.maxReplicaCount }}
{{- end }}
{{- if and $keda.enabled (lt (int $keda.minReplicaCount) 1) }}
keda.minReplicaCount is 0; at least 1 is allowed: with no pod nobody takes signals, nor wakes the threads that wait
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.disruption" -}}
{{- $budget := .Values.podDisruptionBudget }}
{{- if $budget.enabled }}
{{- $least := include "signals-runtime.replicas" . | int }}
{{- if .Values.autoscaling.enabled }}{{ $least = int .Values.autoscaling.minReplicas }}{{ end }}
{{- if .Values.keda.enabled }}{{ $least = int .Values.keda.minReplicaCount }}{{ end }}
{{- if and (kindIs "invalid" $budget.minAvailable) (kindIs "invalid" $budget.maxUnavailable) }}
podDisruptionBudget needs maxUnavailable or minAvailable
{{- end }}
{{- if and (not (kindIs "invalid" $budget.minAvailable)) (not (kindIs "invalid" $budget.maxUnavailable)) }}
podDisruptionBudget.minAvailable and maxUnavailable are both set; set one of them to null
{{- end }}
{{- if and (not (kindIs "string" $budget.minAvailable)) (not (kindIs "invalid" $budget.minAvailable)) (ge (int $budget.minAvailable) $least) (not (include "signals-runtime.embedded" .)) }}
{{ printf "podDisruptionBudget.minAvailable is %v of %d pods: no node could ever be drained" $budget.minAvailable $least }}
{{- end }}
{{- if or (eq (toString $budget.maxUnavailable) "0") (eq (toString $budget.maxUnavailable) "0%") (eq (toString $budget.minAvailable) "100%") }}
podDisruptionBudget allows no pod to go: no node could ever be drained
{{- end }}
{{- end }}
{{- $strategy := .Values.updateStrategy }}
{{- if and (eq $strategy.type "Recreate") $strategy.rollingUpdate }}
updateStrategy.rollingUpdate has no meaning with type Recreate; set it to null
{{- end }}
{{- with $strategy.rollingUpdate }}
{{- if and (has (toString .maxUnavailable) (list "0" "0%")) (has (toString .maxSurge) (list "0" "0%")) }}
updateStrategy.rollingUpdate: maxUnavailable and maxSurge are both 0, so no rollout could go on
{{- end }}
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.settings" -}}
{{- $settings := .Values.settings }}
{{- $ttl := int64 $settings.ttlMs }}
{{- if and $settings.renewIntervalMs (gt (int64 $settings.renewIntervalMs) (div $ttl 2)) }}
{{ printf "settings.renewIntervalMs is %s; at most half of settings.ttlMs (%d) is allowed" (include "signals-runtime.text" $settings.renewIntervalMs) (div $ttl 2) }}
{{- end }}
{{- if and $settings.driftMs (gt (int64 $settings.driftMs) (div $ttl 4)) }}
{{ printf "settings.driftMs is %s; at most a quarter of settings.ttlMs (%d) is allowed" (include "signals-runtime.text" $settings.driftMs) (div $ttl 4) }}
{{- end }}
{{- if eq (include "signals-runtime.tuningName" .) (include "signals-runtime.settingsName" .) }}
settings.tuning.name is the name of the chart's own ConfigMap; another is needed
{{- end }}
{{- if gt (int64 (default 262144 .Values.mailbox.signalMaxBytes)) (int64 (default 16777216 .Values.mailbox.maxBytes)) }}
mailbox.signalMaxBytes is more than mailbox.maxBytes: no such signal would fit
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.drain" -}}
{{- $least := include "signals-runtime.leastGraceSeconds" . | int }}
{{- if lt (include "signals-runtime.graceSeconds" . | int) $least }}
{{ printf "terminationGracePeriodSeconds is %d; at least %d is allowed: drain.preStopSleepSeconds (%d) + drain.delaySeconds (%d) + settings.drainTimeoutMs (%s) + %s s for the stop itself + %s s of margin" (int .Values.terminationGracePeriodSeconds) $least (int .Values.drain.preStopSleepSeconds) (int .Values.drain.delaySeconds) (include "signals-runtime.text" .Values.settings.drainTimeoutMs) (include "signals-runtime.stopSeconds" .) (include "signals-runtime.graceMarginSeconds" .) }}
{{- end }}
{{- if and .Values.drain.preStopSleepSeconds (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{ printf "drain.preStopSleepSeconds needs Kubernetes 1.30 or newer, this is %s; use drain.delaySeconds" .Capabilities.KubeVersion.Version }}
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.access" -}}
{{- if and .Values.auth.existingSecret .Values.auth.tokens }}
auth.existingSecret and auth.tokens are both set; one of the two is allowed
{{- end }}
{{- if and .Values.trustedCa.existingSecret .Values.trustedCa.existingConfigMap }}
trustedCa.existingSecret and trustedCa.existingConfigMap are both set; one of the two is allowed
{{- end }}
{{- if eq (int .Values.server.port) (int .Values.server.metricsPort) }}
{{ printf "server.port and server.metricsPort are both %d; they must differ" (int .Values.server.port) }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) .Values.rbac.create (include "signals-runtime.usesApi" .) }}
serviceAccount.create is false and serviceAccount.name is empty: the Role would go to every pod of the namespace that has no account of its own
{{- end }}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") }}
service.nodePort is set, and service.type ClusterIP has none
{{- end }}
{{- if and .Values.service.externalTrafficPolicy (eq .Values.service.type "ClusterIP") }}
service.externalTrafficPolicy is set, and service.type ClusterIP has no traffic from outside
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.agents" -}}
{{- $module := .Values.agents.module }}
{{- $given := list $module.source $module.existingConfigMap $module.image.reference $module.path | compact }}
{{- if gt (len $given) 1 }}
agents.module: more than one of source, existingConfigMap, image.reference and path is set; one is allowed
{{- end }}
{{- if and $module.image.reference (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
{{ printf "agents.module.image needs Kubernetes 1.33 or newer, this is %s; build the module into an image of your own and set agents.module.path" .Capabilities.KubeVersion.Version }}
{{- end }}
{{- $ids := list }}
{{- range .Values.agents.remote }}{{ $ids = append $ids .id }}{{ end }}
{{- if ne (len $ids) (len (uniq $ids)) }}
{{ printf "agents.remote has an id twice: %s" (join ", " $ids) }}
{{- end }}
{{- end }}

{{- define "signals-runtime.problems.monitoring" -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true: every pod would be scraped twice
{{- end }}
{{- end }}

{{/* A name that is there twice is refused by a server-side apply, and with an older Helm one of the two wins. */}}
{{- define "signals-runtime.problems.environment" -}}
{{- $own := list }}
{{- range include "signals-runtime.env" . | trim | fromYamlArray }}{{ $own = append $own .name }}{{ end }}
{{- range .Values.extraEnv }}
{{- if has .name $own }}
{{ printf "extraEnv has %s, which the chart sets; use the value that it comes from" .name }}
{{- else if hasPrefix "MASTRA_AGENT_THREAD_LEASE_" .name }}
{{ printf "extraEnv has %s, which settings would override; use settings" .name }}
{{- end }}
{{- end }}
{{- end }}
