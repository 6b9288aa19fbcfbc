// What upstream's webhooks make of objects of Cluster API: a JSON list of objects on standard input, a JSON list on
// standard output with each object in its other version, or with the error. Objects of providers are read in v1beta1
// of their group.
package main

import (
	"context"
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	bootstrap1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrap2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	core1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	core2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	bootstrap "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/conversion"
	core "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

type answer struct {
	Object runtime.Object `json:"object,omitempty"`
	Error  string         `json:"error,omitempty"`
}

var makers = map[string]func(*runtime.Scheme) (conversion.Converter, error){
	"Cluster":               core.Cluster,
	"Machine":               core.Machine,
	"MachineSet":            core.MachineSet,
	"MachineDeployment":     core.MachineDeployment,
	"MachineHealthCheck":    core.MachineHealthCheck,
	"MachineDrainRule":      core.MachineDrainRule,
	"KubeadmConfig":         bootstrap.KubeadmConfig,
	"KubeadmConfigTemplate": bootstrap.KubeadmConfigTemplate,
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core1.AddToScheme, core2.AddToScheme, bootstrap1.AddToScheme, bootstrap2.AddToScheme,
	} {
		must(add(scheme))
	}
	core.SetAPIVersionGetter(func(_ context.Context, kind schema.GroupKind) (string, error) {
		return kind.Group + "/v1beta1", nil
	})
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	var objects []json.RawMessage
	must(json.NewDecoder(os.Stdin).Decode(&objects))
	answers := make([]answer, len(objects))
	for number, raw := range objects {
		object, err := converted(scheme, decoder, raw)
		if err != nil {
			answers[number].Error = err.Error()
		} else {
			answers[number].Object = object
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}

func converted(scheme *runtime.Scheme, decoder runtime.Decoder, raw []byte) (runtime.Object, error) {
	source, kind, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	other := *kind
	other.Version = map[string]string{"v1beta1": "v1beta2", "v1beta2": "v1beta1"}[kind.Version]
	result, err := scheme.New(other)
	if err != nil {
		return nil, err
	}
	result.GetObjectKind().SetGroupVersionKind(other)
	source.GetObjectKind().SetGroupVersionKind(*kind)
	converter, err := makers[kind.Kind](scheme)
	if err != nil {
		return nil, err
	}
	return result, converter.ConvertObject(context.Background(), source, result)
}
