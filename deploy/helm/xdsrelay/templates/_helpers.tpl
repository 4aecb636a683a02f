{{- define "xdsrelay.name" -}}
{{- if contains "xdsrelay" .Release.Name }}{{ .Release.Name | trunc 48 | trimSuffix "-" }}{{ else }}{{ printf "%s-xdsrelay" (.Release.Name | trunc 39) }}{{ end }}
{{- end }}

{{- define "xdsrelay.selector" -}}
app.kubernetes.io/name: xdsrelay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "xdsrelay.labels" -}}
{{ include "xdsrelay.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "xdsrelay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The secret with the certificate for clients; "": there is no TLS. */ -}}
{{- define "xdsrelay.tls" -}}
{{- if .Values.tls.certManager.issuer }}{{ .Values.tls.secret | default (printf "%s-tls" (include "xdsrelay.name" .)) }}{{ else }}{{ .Values.tls.secret }}{{ end }}
{{- end }}

{{- /* The configuration: the user's, and what belongs to the pod. */ -}}
{{- define "xdsrelay.config" -}}
{{- $server := dict "listen" (printf ":%d" (int .Values.port)) "drain" (printf "%ds" (int .Values.drainSeconds)) }}
{{- if include "xdsrelay.tls" . }}
{{- $tls := dict "cert_file" "/etc/xdsrelay-tls/tls.crt" "key_file" "/etc/xdsrelay-tls/tls.key" }}
{{- if .Values.tls.clients }}{{ $_ := set $tls "client_ca_file" "/etc/xdsrelay-tls/ca.crt" }}{{ end }}
{{- $_ := set $server "tls" $tls }}
{{- end }}
{{- $own := dict "server" $server "admin" (dict "probes_listen" ":19102") }}
{{- if .Values.cache }}{{ $_ := set $own "cache" (dict "dir" "/var/lib/xdsrelay/cache") }}{{ end }}
{{- with .Values.peers }}
{{- if .secret }}
{{- $tls := dict "cert_file" "/etc/xdsrelay-peers/tls.crt" "key_file" "/etc/xdsrelay-peers/tls.key" "ca_file" "/etc/xdsrelay-peers/ca.crt" }}
{{- $address := printf "%s-headless.%s.svc:%d" (include "xdsrelay.name" $) $.Release.Namespace (int .port) }}
{{- $_ := set $own "peers" (dict "listen" (printf ":%d" (int .port)) "addresses" (list $address) "tls" $tls "identities" .identities "secrets" .secrets) }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) }}
{{- end }}
