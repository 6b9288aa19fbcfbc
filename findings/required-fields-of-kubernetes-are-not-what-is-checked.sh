#!/usr/bin/env bash
# What Kubernetes' OpenAPI calls required is not what kube-apiserver asks for, in both directions.
#
# Versions:  k8s.io/kubernetes v1.36.3, the validation that kube-apiserver runs, and the OpenAPI files of the same module
# Guess:     a built-in object without a field that the OpenAPI marks as required is refused, and no other field is asked for.
# Seen:      CSINode without spec.drivers, LimitRange without spec.limits and a token request of a CSIDriver without an audience are
#            taken; a Pod whose ConfigMap volume has no name is refused, though the OpenAPI asks for no name.
# Means:     a server or client that checks by the OpenAPI refuses what kubelets send (a CSINode of a node without drivers) and lets
#            through what kube-apiserver refuses.
#
# Needs Go and its module proxy, and python3. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
)

// defaulted turns an object of a version into what validation gets.
func defaulted(versioned runtime.Object, internal runtime.Object) {
	legacyscheme.Scheme.Default(versioned)
	if err := legacyscheme.Scheme.Convert(versioned, internal, nil); err != nil {
		panic(err)
	}
}

func say(what string, errors field.ErrorList) {
	fmt.Printf("%s: %v\n", what, errors.ToAggregate())
}

func main() {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "b"}
	alone := metav1.ObjectMeta{Name: "a"}

	var node storage.CSINode
	defaulted(&storagev1.CSINode{ObjectMeta: alone}, &node)
	say("CSINode without spec.drivers", storagevalidation.ValidateCSINode(&node))

	var driver storage.CSIDriver
	defaulted(&storagev1.CSIDriver{ObjectMeta: alone, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{}}}}, &driver)
	say("CSIDriver with a token request without audience", storagevalidation.ValidateCSIDriver(&driver))

	var limits core.LimitRange
	defaulted(&corev1.LimitRange{ObjectMeta: meta}, &limits)
	say("LimitRange without spec.limits", corevalidation.ValidateLimitRange(&limits))

	pod := corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}},
	}}
	var internal core.Pod
	defaulted(&pod, &internal)
	say("Pod with a ConfigMap volume without name", corevalidation.ValidatePodCreate(&internal, corevalidation.PodValidationOptions{}))
}
GO
cat > marks.py <<'PY'
import json
import sys

DEFINITIONS = {
    "apis__storage.k8s.io__v1": ("storage.v1.CSINode", "storage.v1.CSINodeSpec", "storage.v1.TokenRequest"),
    "api__v1": ("core.v1.LimitRangeSpec", "core.v1.ConfigMapVolumeSource"),
}
for file, names in DEFINITIONS.items():
    with open(f"{sys.argv[1]}/api/openapi-spec/v3/{file}_openapi.json") as read:
        schemas = json.load(read)["components"]["schemas"]
    for name in names:
        print(f"required of {name}: {', '.join(schemas['io.k8s.api.' + name].get('required', ['nothing']))}")
PY
cat > expected <<'END'
required of storage.v1.CSINode: spec
required of storage.v1.CSINodeSpec: drivers
required of storage.v1.TokenRequest: audience
required of core.v1.LimitRangeSpec: limits
required of core.v1.ConfigMapVolumeSource: nothing
CSINode without spec.drivers: <nil>
CSIDriver with a token request without audience: <nil>
LimitRange without spec.limits: <nil>
Pod with a ConfigMap volume without name: spec.volumes[0].configMap.name: Required value
END
go mod init finding >/dev/null 2>&1
for each in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap code-generator \
    component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib \
    dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler \
    kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver sample-cli-plugin sample-controller streaming; do
    go mod edit -replace "k8s.io/$each=k8s.io/$each@v0.36.3"
done
go get k8s.io/kubernetes@v1.36.3 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
python3 marks.py "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)" > seen
go run . >> seen
cat seen
diff expected seen
