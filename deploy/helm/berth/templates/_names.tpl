{{- /* Names are the same whatever the release is called: a cluster has one Berth. */ -}}

{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
{{- end }}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "berth.subjects" -}}
- kind: ServiceAccount
  name: berth
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Where the Secret is that says who Berth is at VPSie. */ -}}
{{- define "berth.vpsieNamespace" -}}
{{ .Values.vpsieSecretNamespace | default .Release.Namespace }}
{{- end }}

{{- /* The service last, so that a path can follow. */ -}}
{{- define "berth.webhook" -}}
{{- with .Values.webhook.caBundle -}}
caBundle: {{ . }}
{{ end -}}
service:
  name: berth-webhook
  namespace: {{ .Release.Namespace }}
  port: 443
{{- end }}
