#!/usr/bin/env bash
# helm --wait, Flux and kapp-like tools take every object of MCM, and a v1beta2 rollout of Cluster API, for finished.
#
# Versions:  github.com/fluxcd/cli-utils v0.36.0-flux.15 (kstatus)
# Guess:     a MachineDeployment that is not Available and past its deadline is Failed, or at least InProgress.
# Seen:      it is Current, as is a machine in CrashLoopBackOff, an object without status, and a v1beta2 MachineDeployment while RollingOut; only Ready, Reconciling, Stalled and observedGeneration count.
# Means:     a release is "deployed" while no machine runs; wait for conditions by name instead (kubectl wait).
#
# Needs Go and its module proxy. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func tell(name, text string) {
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		panic(err)
	}
	found, err := status.Compute(object)
	if err != nil {
		panic(err)
	}
	fmt.Println(name+":", found.Status)
}

func main() {
	tell("a machine in CrashLoopBackOff", `{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {name: a, generation: 1}, status: {currentStatus: {phase: CrashLoopBackOff}}}`)
	tell("a deployment past its deadline", `{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineDeployment, metadata: {name: a, generation: 1}, status: {observedGeneration: 1, conditions: [{type: Available, status: "False"}, {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`)
	tell("a v1beta2 rollout", `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: a, generation: 1}, status: {observedGeneration: 1, conditions: [{type: Available, status: "False"}, {type: RollingOut, status: "True"}]}}`)
	tell("an object without status", `{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineSet, metadata: {name: a, generation: 1}}`)
	tell("a v1beta1 object that is not Ready", `{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {name: a, generation: 1}, status: {conditions: [{type: Ready, status: "Unknown"}]}}`)
}
GO
cat > expected <<'END'
a machine in CrashLoopBackOff: Current
a deployment past its deadline: Current
a v1beta2 rollout: Current
an object without status: Current
a v1beta1 object that is not Ready: InProgress
END
go mod init finding >/dev/null 2>&1
go get github.com/fluxcd/cli-utils@v0.36.0-flux.15 k8s.io/apimachinery@v0.34.0 sigs.k8s.io/yaml@v1.6.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
