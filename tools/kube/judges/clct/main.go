// What Cluster API makes of a Container Linux Config: a JSON list of texts on standard input, a JSON list on standard
// output with the Ignition config of each text, and what the transpiler reports. Cluster API refuses a text whose
// report is fatal, and with "strict" one whose report has any entry.
package main

import (
	"encoding/json"
	"os"

	clct "github.com/flatcar/container-linux-config-transpiler/config"
	ignition "github.com/flatcar/ignition/config/v2_3/types"
)

type answer struct {
	Config  *ignition.Config `json:"config,omitempty"`
	Entries int              `json:"entries"`
	Report  string           `json:"report"`
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	answers := make([]answer, len(texts))
	for number, text := range texts {
		answers[number] = transpiled(text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func transpiled(text string) answer {
	parsed, tree, report := clct.Parse([]byte(text))
	if report.IsFatal() {
		return answer{Entries: len(report.Entries), Report: report.String()}
	}
	found, converting := clct.Convert(parsed, "", tree)
	report.Merge(converting)
	if report.IsFatal() {
		return answer{Entries: len(report.Entries), Report: report.String()}
	}
	return answer{Config: &found, Entries: len(report.Entries), Report: report.String()}
}
