#!/usr/bin/env bash
# The JSON patch of kube-apiserver tests numbers by their text, and counts indexes from the end.
#
# Versions:  gopkg.in/evanphx/json-patch.v4 v4.13.0, which Kubernetes 1.36 uses
# Guess:     `test` of 1 against 1.0 succeeds, and an index of -1 or 00 is refused, as RFC 6901 and 6902 have it.
# Seen:      the test fails; -1 is the last element, `add` at -1 comes after it; 00 is index 0.
# Means:     a client that writes 1.0 (Python's 2/2) cannot test a 1; `add` at -1 and `remove` at -1 are not of the same place.
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

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func main() {
	for _, row := range [][2]string{
		{`{"a":1}`, `[{"op":"test","path":"/a","value":1.0}]`},
		{`{"a":[1,2,3]}`, `[{"op":"remove","path":"/a/-1"}]`},
		{`{"a":[1,2,3]}`, `[{"op":"add","path":"/a/-1","value":9}]`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/00","value":5}]`},
		{`{"a":1}`, `[{"op":"test","path":"/b","value":null}]`},
	} {
		patch, err := jsonpatch.DecodePatch([]byte(row[1]))
		if err != nil {
			panic(err)
		}
		after, err := patch.Apply([]byte(row[0]))
		fmt.Printf("%s %s: %s %v\n", row[0], row[1], after, err)
	}
}
GO
cat > expected <<'END'
{"a":1} [{"op":"test","path":"/a","value":1.0}]:  testing value /a failed: test failed
{"a":[1,2,3]} [{"op":"remove","path":"/a/-1"}]: {"a":[1,2]} <nil>
{"a":[1,2,3]} [{"op":"add","path":"/a/-1","value":9}]: {"a":[1,2,3,9]} <nil>
{"a":[1]} [{"op":"add","path":"/a/00","value":5}]: {"a":[5,1]} <nil>
{"a":1} [{"op":"test","path":"/b","value":null}]: {"a":1} <nil>
END
go mod init finding >/dev/null 2>&1
go get gopkg.in/evanphx/json-patch.v4@v4.13.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
