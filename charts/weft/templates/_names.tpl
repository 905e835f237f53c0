{{- define "weft.labels" -}}
app.kubernetes.io/part-of: weft
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "weft.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "weft.subject" -}}
subjects:
  - kind: ServiceAccount
    name: weft-controller
    namespace: {{ .Release.Namespace }}
{{- end }}
