#!/usr/bin/env bash
# The same quantity prints in several ways: String() gives back the text that was parsed.
#
# Versions:  k8s.io/apimachinery v0.36.3
# Guess:     ParseQuantity("+1").String() is "1": the text is made canonical when it is parsed.
# Seen:      "+1", "5." and "1e-3" come back unchanged, while "0.5Gi" becomes 512Mi and "1000k" becomes 1M.
# Means:     two writers of one amount fight for ever if they compare texts; compare quantities, not what they print.
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

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range []string{"+1", "5.", "1e-3", "0.5Gi", "1000k", "1.5", "1024Ki"} {
		parsed := resource.MustParse(text)
		fmt.Printf("%s is printed as %s\n", text, parsed.String())
	}
	plus, one := resource.MustParse("+1"), resource.MustParse("1")
	fmt.Printf("+1 equals 1: %v\n", plus.Cmp(one) == 0)
}
GO
cat > expected <<'END'
+1 is printed as +1
5. is printed as 5.
1e-3 is printed as 1e-3
0.5Gi is printed as 512Mi
1000k is printed as 1M
1.5 is printed as 1500m
1024Ki is printed as 1Mi
+1 equals 1: true
END
go mod init finding >/dev/null 2>&1
go get k8s.io/apimachinery@v0.36.3 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
