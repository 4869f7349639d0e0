{{- define "headstart.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name, with the chart's if that is not part of it. */ -}}
{{- define "headstart.fullname" -}}
{{- $name := include "headstart.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headstart.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "headstart.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* What tells its pods from all others; it never changes, because selectors cannot. */ -}}
{{- define "headstart.selector" -}}
app.kubernetes.io/name: {{ include "headstart.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* The labels that every object has, as a field of its metadata. */ -}}
{{- define "headstart.labels" -}}
labels:
  {{- include "headstart.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
  {{- with .Values.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- /* The labels and annotations that every object has, as fields of its metadata. */ -}}
{{- define "headstart.metadata" -}}
{{- include "headstart.labels" . }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "headstart.image" -}}
{{- $image := .Values.controller.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The Lease that the one who acts holds; a provisioner takes Karpenter's. */ -}}
{{- define "headstart.lease" -}}
{{- if eq .Values.settings.mode "provisioner" -}}
karpenter-leader-election
{{- else -}}
{{- printf "headstart-%s" .Values.settings.mode -}}
{{- end -}}
{{- end -}}

{{- /* Feature gates as the operator reads them: the same names with a capital. */ -}}
{{- define "headstart.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{- /* Constraints with a selector for its own pods where there is none. */ -}}
{{- define "headstart.topologySpreadConstraints" -}}
{{- $selector := dict "matchLabels" (include "headstart.selector" . | fromYaml) -}}
{{- range .Values.topologySpreadConstraints }}
- {{ toYaml (merge . (dict "labelSelector" $selector)) | nindent 2 | trim }}
{{- end -}}
{{- end -}}
