// What programs written in Go read in YAML: a JSON list of texts on standard input, a JSON list on standard output
// with what each of three libraries makes of each text, or its error. sigs.k8s.io/yaml answers with JSON, as
// Kubernetes reads it; of gopkg.in/yaml.v2 and v3 text stays text, and all else is {"!": its type in Go}.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	v2 "gopkg.in/yaml.v2"
	v3 "gopkg.in/yaml.v3"
	sigs "sigs.k8s.io/yaml"
)

type reading struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	readings := make([]map[string]reading, len(texts))
	for number, text := range texts {
		readings[number] = map[string]reading{
			"sigs": kubernetes(text),
			"v2":   plain(text, v2.Unmarshal),
			"v3":   plain(text, v3.Unmarshal),
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(readings); err != nil {
		panic(err)
	}
}

func kubernetes(text string) reading {
	found, err := sigs.YAMLToJSON([]byte(text))
	if err != nil {
		return reading{Error: err.Error()}
	}
	return reading{Value: found}
}

func plain(text string, read func([]byte, interface{}) error) (answer reading) {
	defer func() { // a panic of a library is an answer, too
		if problem := recover(); problem != nil {
			answer = reading{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	var found interface{}
	if err := read([]byte(text), &found); err != nil {
		return reading{Error: err.Error()}
	}
	value, err := json.Marshal(named(found))
	if err != nil {
		return reading{Error: err.Error()}
	}
	return reading{Value: value}
}

func named(value interface{}) interface{} {
	switch known := value.(type) {
	case string:
		return known
	case []interface{}:
		list := make([]interface{}, len(known))
		for number, each := range known {
			list[number] = named(each)
		}
		return list
	case map[interface{}]interface{}:
		fields := map[string]interface{}{}
		for key, each := range known {
			fields[keyed(key)] = named(each)
		}
		return fields
	case map[string]interface{}:
		fields := map[string]interface{}{}
		for key, each := range known {
			fields[key] = named(each)
		}
		return fields
	}
	return map[string]string{"!": fmt.Sprintf("%T", value)}
}

func keyed(key interface{}) string {
	if text, ok := key.(string); ok {
		return text
	}
	return fmt.Sprintf("!%T", key)
}
