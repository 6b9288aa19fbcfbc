#!/usr/bin/env bash
# clusterctl's templates: variables in comments are required, := assigns nothing, and $$ is one dollar.
#
# Versions:  sigs.k8s.io/cluster-api v1.10.10 (clusterctl's yamlprocessor)
# Guess:     comments are not looked at, `${N:=3} ${N}` is `3 3` as in a shell, and `$$FOO` stays as it is.
# Seen:      a variable in a comment without value fails the whole template; the second ${N} is empty; $$FOO becomes $FOO, and ${SET:0:1} is listed with the default 01.
# Means:     take variables out of comments; give each use its own default; write $$ for a dollar; do not believe the list of defaults.
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

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

func main() {
	values := func(name string) (string, error) {
		if name == "SET" {
			return "yes", nil
		}
		return "", fmt.Errorf("no %s", name)
	}
	for _, text := range []string{"# ${MISSING}", "a: ${N:=3} ${N}", "a: $$FOO", "a: $SET", "a: ${SET:0:1}", "a: $${SET}"} {
		processor := yamlprocessor.NewSimpleProcessor()
		made, err := processor.Process([]byte(text), values)
		defaults, _ := processor.GetVariableMap([]byte(text))
		fmt.Printf("%q: %q refused=%v", text, made, err != nil)
		for name, value := range defaults {
			if value != nil {
				fmt.Printf(" default of %s: %q", name, *value)
			}
		}
		fmt.Println()
	}
}
GO
cat > expected <<'END'
"# ${MISSING}": "# ${MISSING}" refused=true
"a: ${N:=3} ${N}": "a: 3 " refused=false default of N: "3"
"a: $$FOO": "a: $FOO" refused=false
"a: $SET": "a: $SET" refused=false
"a: ${SET:0:1}": "a: y" refused=false default of SET: "01"
"a: $${SET}": "a: ${SET}" refused=false
END
go mod init finding >/dev/null 2>&1
go get sigs.k8s.io/cluster-api@v1.10.10 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
