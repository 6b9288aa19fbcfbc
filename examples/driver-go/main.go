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

// vm is one machine of the cloud; class says whose it is.
type vm struct{ id, name, class string }

// cloud answers one operation at a time, as the manager expects of a driver that does not say how many it can do.
type cloud struct {
	types  types
	conn   *grpc.ClientConn
	vms    map[string]vm
	number int
}

// classOf fetches a class, and tells the tags by which its VMs are known.
func (c *cloud) classOf(params protoreflect.Message) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	meta := params.Get(params.Descriptor().Fields().ByName("machineClassMetaData")).Message()
	answer := c.types.message("MachineClass")
	if err := c.conn.Invoke(ctx, service+"GetMachineClass", meta.Interface(), answer); err != nil {
		return "", err
	}
	if told := text(answer, "error"); told != "" {
		return "", fmt.Errorf("%s", told)
	}
	return tagsOf(text(answer, "data"))
}

// tagsOf is what makes VMs those of a class: the tags in its providerSpec, or without tags its name.
func tagsOf(class string) (string, error) {
	var found struct {
		Metadata     struct{ Name, Namespace string }
		ProviderSpec struct {
			Tags       map[string]string
			BootSecond *int
		}
	}
	if err := json.Unmarshal([]byte(class), &found); err != nil {
		return "", fmt.Errorf("machine codes error: code = [InvalidArgument] message = [the class cannot be read: %v]", err)
	}
	if found.ProviderSpec.BootSecond != nil {
		return "", fmt.Errorf("machine codes error: code = [InvalidArgument] message = [providerSpec: bootSecond is no field of this cloud]")
	}
	tags, err := json.Marshal(found.ProviderSpec.Tags)
	return found.Metadata.Namespace + string(tags), err
}

// create makes a VM, or finds the one that was made under this name.
func (c *cloud) create(params, answer protoreflect.Message) error {
	class, err := c.classOf(params)
	if err != nil {
		return err
	}
	name := text(params, "machineName")
	made, found := c.named(name, class)
	if !found {
		c.number++
		made = vm{fmt.Sprintf("go:///zone-1/vm-%06d", c.number), name, class}
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

// list has all VMs of a class.
func (c *cloud) list(params, answer protoreflect.Message) error {
	class, err := c.classOf(params)
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
	case "create":
		response = mutable(said, "createresponse").Message()
		err = c.create(params, response)
	case "delete":
		response = mutable(said, "deleteresponse").Message()
		delete(c.vms, text(params, "machineID"))
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
