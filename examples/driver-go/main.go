// A driver in Go, from driver.proto alone: a cloud of VMs in memory that a manager reaches over gRPC.
//
// The proto file is read when the program starts, so nothing is generated and there is nothing to keep in step.
// Build and run, beside a manager that runs with --driver grpc:
//
//	cp ../../src/kubewright/providers/grpc/driver.proto . && go build . && ./driver unix:/DATA/grpc/drivers.sock
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

//go:embed driver.proto
var protoFile string

const (
	service    = "/service.Servicegrpc/"
	again      = 5 * time.Second
	fetchLimit = time.Second
)

// types are the messages of the proto file.
type types struct{ file protoreflect.FileDescriptor }

func readTypes() (types, error) {
	source := protocompile.SourceAccessorFromMap(map[string]string{"driver.proto": protoFile})
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: source})}
	files, err := compiler.Compile(context.Background(), "driver.proto")
	if err != nil {
		return types{}, err
	}
	return types{files[0]}, nil
}

func (t types) message(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(t.file.Messages().ByName(name))
}

// text reads a field of a message; "" where it is not set.
func text(m protoreflect.Message, name protoreflect.Name) string {
	return m.Get(m.Descriptor().Fields().ByName(name)).String()
}

func set(m protoreflect.Message, name protoreflect.Name, value any) {
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(value))
}

func mutable(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Mutable(m.Descriptor().Fields().ByName(name))
}

// vm is one machine of the cloud; class says whose it is: the tags by which it is found, which never change.
type vm struct {
	id, name, class string
	tags            map[string]string
}

// spec is what a class says in its providerSpec.
type spec struct {
	Tags       map[string]string
	BootSecond *int
}

// coded is an error with one of the codes of the contract.
func coded(code, format string, values ...any) error {
	return fmt.Errorf("machine codes error: code = [%s] message = [%s]", code, fmt.Sprintf(format, values...))
}

// cloud answers one operation at a time, as the manager expects of a driver that does not say how many it can do.
type cloud struct {
	types  types
	conn   *grpc.ClientConn
	vms    map[string]vm
	number int
}

// classOf fetches a class, and tells what its VMs are found by, and their tags.
func (c *cloud) classOf(params protoreflect.Message) (string, map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	meta := params.Get(params.Descriptor().Fields().ByName("machineClassMetaData")).Message()
	answer := c.types.message("MachineClass")
	if err := c.conn.Invoke(ctx, service+"GetMachineClass", meta.Interface(), answer); err != nil {
		return "", nil, err
	}
	if told := text(answer, "error"); told != "" {
		return "", nil, fmt.Errorf("%s", told)
	}
	var found struct {
		Metadata     struct{ Name, Namespace string }
		ProviderSpec spec
	}
	if err := json.Unmarshal([]byte(text(answer, "data")), &found); err != nil {
		return "", nil, coded("InvalidArgument", "the class cannot be read: %v", err)
	}
	if found.ProviderSpec.BootSecond != nil {
		return "", nil, coded("InvalidArgument", "providerSpec: bootSecond is no field of this cloud")
	}
	return found.Metadata.Namespace + foundBy(found.ProviderSpec.Tags), found.ProviderSpec.Tags, nil
}

// foundBy is what makes VMs those of a class: its tags of cluster and role, which no update changes.
func foundBy(tags map[string]string) string {
	found := []string{}
	for key, value := range tags {
		if strings.Contains(key, "kubernetes.io/cluster/") || strings.Contains(key, "kubernetes.io/role/") {
			found = append(found, key+"="+value)
		}
	}
	sort.Strings(found)
	return strings.Join(found, ",")
}

// create makes a VM, or finds the one that was made under this name.
func (c *cloud) create(params, answer protoreflect.Message) error {
	class, tags, err := c.classOf(params)
	if err != nil {
		return err
	}
	name := text(params, "machineName")
	made, found := c.named(name, class)
	if !found {
		c.number++
		made = vm{fmt.Sprintf("go:///zone-1/vm-%06d", c.number), name, class, maps.Clone(tags)}
		c.vms[made.id] = made
	}
	set(answer, "providerID", made.id)
	set(answer, "nodename", "node-of-"+made.name)
	return nil
}

func (c *cloud) named(name, class string) (vm, bool) {
	for _, each := range c.vms {
		if each.name == name && each.class == class {
			return each, true
		}
	}
	return vm{}, false
}

// remove deletes a VM by its id, or by the machine's name where there is none on record.
func (c *cloud) remove(params protoreflect.Message) error {
	id := text(params, "machineID")
	if id == "" {
		class, _, err := c.classOf(params)
		if err != nil {
			return err
		}
		made, _ := c.named(text(params, "machineName"), class)
		id = made.id
	}
	delete(c.vms, id)
	return nil
}

// update changes the tags of a VM that runs: those that the class had last and has no more go, others' stay.
func (c *cloud) update(params protoreflect.Message) error {
	class, tags, err := c.classOf(params)
	if err != nil {
		return err
	}
	made, found := c.vms[text(params, "machineID")]
	if !found {
		return coded("NotFound", "there is no such VM")
	}
	if made.class != class {
		return coded("InvalidArgument", "providerSpec: tags: VMs are found by those of cluster and role, which stay")
	}
	var last spec
	if before := text(params, "lastAppliedProviderSpec"); before != "" {
		_ = json.Unmarshal([]byte(before), &last) // what cannot be read is not known, and nothing goes for it
	}
	after := map[string]string{}
	for key, value := range made.tags {
		if _, had := last.Tags[key]; !had {
			after[key] = value
		}
	}
	maps.Copy(after, tags)
	made.tags = after
	c.vms[made.id] = made
	return nil
}

// list has all VMs of a class.
func (c *cloud) list(params, answer protoreflect.Message) error {
	class, _, err := c.classOf(params)
	if err != nil {
		return err
	}
	ids := make([]string, 0, len(c.vms))
	for id, each := range c.vms {
		if each.class == class {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	found := mutable(answer, "list").List()
	for _, id := range ids {
		each := found.NewElement()
		set(each.Message(), "machineID", id)
		set(each.Message(), "machineName", c.vms[id].name)
		found.Append(each)
	}
	return nil
}

// answer fills the response to one operation; one that is not known has none.
func (c *cloud) answer(asked, said protoreflect.Message) {
	params := asked.Get(asked.Descriptor().Fields().ByName("operationparams")).Message()
	var response protoreflect.Message
	var err error
	switch text(asked, "operationType") {
	case "register":
		response = mutable(said, "registerResp").Message()
		for field, value := range map[protoreflect.Name]string{
			"name": "go", "group": "machine.sapcloud.io", "kind": "MachineClass", "version": "v1alpha1",
		} {
			set(response, field, value)
		}
		for _, each := range []string{"create", "delete", "list", "update"} {
			mutable(response, "operations").List().Append(protoreflect.ValueOf(each))
		}
		mutable(response, "hotFields").List().Append(protoreflect.ValueOf("tags"))
	case "create":
		response = mutable(said, "createresponse").Message()
		err = c.create(params, response)
	case "delete":
		response = mutable(said, "deleteresponse").Message()
		err = c.remove(params)
	case "update":
		response = mutable(said, "updateResponse").Message()
		err = c.update(params)
	case "list":
		response = mutable(said, "listresponse").Message()
		err = c.list(params, response)
	}
	if err != nil {
		set(response, "error", err.Error())
	}
}

// serve dials, registers, and answers until the stream ends.
func (c *cloud) serve(ctx context.Context, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	c.conn = conn
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := conn.NewStream(ctx, both, service+"Register")
	if err != nil {
		return err
	}
	for {
		asked, said := c.types.message("MCMside"), c.types.message("DriverSide")
		if err := stream.RecvMsg(asked); err != nil {
			return err
		}
		said.Set(said.Descriptor().Fields().ByName("operationID"), asked.Get(asked.Descriptor().Fields().ByName("operationID")))
		set(said, "operationType", text(asked, "operationType"))
		c.answer(asked, said)
		if err := stream.SendMsg(said); err != nil {
			return err
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: driver ADDRESS, such as unix:/var/lib/kubewright/grpc/drivers.sock")
	}
	known, err := readTypes()
	if err != nil {
		log.Fatal("driver.proto cannot be read: ", err)
	}
	mine := &cloud{types: known, vms: map[string]vm{}}
	for {
		err := mine.serve(context.Background(), strings.TrimSpace(os.Args[1]))
		log.Print("dialling again in ", again, ": ", err)
		time.Sleep(again)
	}
}
