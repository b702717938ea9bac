{{- define "giveway.labels" -}}
app.kubernetes.io/name: giveway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "giveway.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
envFrom:
  - secretRef:
      name: {{ .Values.secret }}
{{- end }}
{{- define "giveway.mounts" -}}
volumeMounts:
  - name: settings
    mountPath: /etc/giveway
    readOnly: true
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
{{- end }}
{{- define "giveway.volumes" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
automountServiceAccountToken: false
enableServiceLinks: false # GIVEWAY_FLOWER_PORT and its like would be settings that do not exist
volumes:
  - name: settings
    configMap:
      name: {{ .Release.Name }}-settings
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}
