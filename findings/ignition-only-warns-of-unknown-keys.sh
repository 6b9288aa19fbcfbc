#!/usr/bin/env bash
# Ignition takes a config with misspelled keys: they are warnings, so a file of the node comes out empty.
#
# Versions:  github.com/coreos/ignition/v2 v2.22.0, specification 3.4.0
# Guess:     a key that the specification does not have is an error.
# Seen:      `contens` of a file and `enable` of a unit are "Unused key" in the report, and the config is valid; so is one whose keys are
#            written `Ignition` and `Version`: they are read, and called unused. A path that is not absolute, a unit without a
#            suffix and the same file twice are errors; the same authorized key twice is one too, while nonsense as a key is fine.
# Means:     who makes Ignition for machines must treat the report's warnings as errors; the machine boots and lacks the file.
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

	"github.com/coreos/ignition/v2/config"
)

func main() {
	const head = `{"ignition": {"version": "3.4.0"}, `
	for _, row := range []struct{ title, text string }{
		{"a misspelled key of a file", head + `"storage": {"files": [{"path": "/a", "contens": {"source": "data:,x"}}]}}`},
		{"a misspelled key of a unit", head + `"systemd": {"units": [{"name": "a.service", "enable": true}]}}`},
		{"keys in capitals", `{"Ignition": {"Version": "3.4.0"}}`},
		{"a path that is not absolute", head + `"storage": {"files": [{"path": "a"}]}}`},
		{"a unit without a suffix", head + `"systemd": {"units": [{"name": "a"}]}}`},
		{"a file twice", head + `"storage": {"files": [{"path": "/a"}, {"path": "/a"}]}}`},
		{"a key that is none", head + `"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["nonsense"]}]}}`},
		{"an authorized key twice", head + `"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k", "k"]}]}}`},
	} {
		_, report, err := config.Parse([]byte(row.text))
		fmt.Printf("%s: refused %v, warned %v\n", row.title, err != nil, err == nil && len(report.Entries) > 0)
	}
}
GO
cat > expected <<'END'
a misspelled key of a file: refused false, warned true
a misspelled key of a unit: refused false, warned true
keys in capitals: refused false, warned true
a path that is not absolute: refused true, warned false
a unit without a suffix: refused true, warned false
a file twice: refused true, warned false
a key that is none: refused false, warned false
an authorized key twice: refused true, warned false
END
go mod init finding >/dev/null 2>&1
go get github.com/coreos/ignition/v2@v2.22.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
