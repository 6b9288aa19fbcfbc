{{- /* Files of deploy/, copied into files/ by `make gen`, in the namespace of the release. */ -}}
{{- define "kubewright.file" -}}
---
{{ .root.Files.Get (printf "files/%s" .name) | replace "namespace: kubewright-system" (printf "namespace: %s" .root.Release.Namespace) }}
{{ end -}}

{{- define "kubewright.check" -}}
{{- if and (not .Values.driver.name) (ne .Values.half "sets") -}}
{{- fail "driver.name is missing: the driver for your cloud (docs/reference/writing-a-driver.md); only half=sets needs none" -}}
{{- end -}}
{{- if and .Values.clusters.enabled (ne .Values.half "both") -}}
{{- fail "clusters.enabled and half=sets or half=machines exclude each other: install clusters as a release without machine-controller-manager" -}}
{{- end -}}
{{- end -}}
