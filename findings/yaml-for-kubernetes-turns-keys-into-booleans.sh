#!/usr/bin/env bash
# In the YAML of Kubernetes' Go programs a key `y` is the key "true", and a huge number is a text.
#
# Versions:  sigs.k8s.io/yaml v1.6.0
# Guess:     only values are read as booleans and numbers; keys stay as they are written, and 1e400 is an error.
# Seen:      `y: 1` is {"true":1}, `1.0: a` is {"1":"a"}; `1e400` becomes the text "1e400"; of two equal keys the last one wins.
# Means:     labels and ConfigMap keys such as y, no and on must be quoted, too; a number out of range changes its type, not its value.
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

	"sigs.k8s.io/yaml"
)

func main() {
	for _, text := range []string{"y: 1", "no: 1", "1.0: a", "0o17: a", "a: 1e400", "a: 1e3", "a: 18446744073709551616", "{a: 1, a: 2}", "a: 12:30"} {
		made, err := yaml.YAMLToJSON([]byte(text))
		fmt.Printf("%s is %s, refused: %v\n", text, made, err != nil)
	}
}
GO
cat > expected <<'END'
y: 1 is {"true":1}, refused: false
no: 1 is {"false":1}, refused: false
1.0: a is {"1":"a"}, refused: false
0o17: a is {"15":"a"}, refused: false
a: 1e400 is {"a":"1e400"}, refused: false
a: 1e3 is {"a":1000}, refused: false
a: 18446744073709551616 is {"a":18446744073709552000}, refused: false
{a: 1, a: 2} is {"a":2}, refused: false
a: 12:30 is {"a":"12:30"}, refused: false
END
go mod init finding >/dev/null 2>&1
go get sigs.k8s.io/yaml@v1.6.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
