// Whether Cluster API's own types read objects without an error, and know every field of them: JSON objects on
// standard input, a line for each that is not read so, and the number of those that are. Secrets and others that
// are not Cluster API's are read by the types of Kubernetes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/bootstrap/kubeadm/api/v1beta1"
)

func main() {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme} {
		if err := add(known); err != nil {
			panic(err)
		}
	}
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	read, wrong := 0, 0
	for objects := json.NewDecoder(os.Stdin); ; {
		var object json.RawMessage
		if err := objects.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			panic(err)
		}
		if _, _, err := strict.Decode(object, nil, nil); err != nil {
			fmt.Println(err)
			wrong++
		} else {
			read++
		}
	}
	fmt.Println(read)
	if wrong > 0 {
		os.Exit(1)
	}
}
