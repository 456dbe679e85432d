{{- define "holdfast.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "holdfast.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "holdfast.secret" -}}
{{ .Values.secrets.existing | default (include "holdfast.name" .) }}
{{- end }}

{{- /* Where the settings come from. The ones that are not secret win. */ -}}
{{- define "holdfast.environment" -}}
envFrom:
  - secretRef: {name: {{ include "holdfast.secret" . }}}
{{- if .Values.settings }}
env:
  {{- range $name, $value := .Values.settings }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
{{- end }}
{{- end }}

{{- define "holdfast.pod-security" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{- define "holdfast.container-security" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
volumeMounts: [{name: data, mountPath: /data}, {name: tmp, mountPath: /tmp}]
{{- end }}

{{- define "holdfast.volumes" -}}
volumes:
  - {name: data, emptyDir: {sizeLimit: 5Gi}}
  - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
{{- end }}
