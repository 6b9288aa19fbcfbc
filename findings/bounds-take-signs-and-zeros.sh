#!/usr/bin/env bash
# maxSurge and maxUnavailable as percentages take a sign and leading zeros.
#
# Versions:  k8s.io/apimachinery v0.36.3
# Guess:     "-5%" and "07%" are errors of GetScaledValueFromIntOrPercent.
# Seen:      both are taken: -5% of 10 is 0, 07% of 100 is 7, +5% is 5; only a fraction and a number without % are refused.
# Means:     this function reads percentages and does not judge them: a sign is part of the number. Compare what it returns with 0.
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

	"k8s.io/apimachinery/pkg/util/intstr"
)

func main() {
	for _, row := range []struct {
		text  string
		total int
	}{{"-5%", 10}, {"-50%", 10}, {"07%", 100}, {"+5%", 100}, {"150%", 3}, {"1.5%", 100}, {"5", 10}} {
		bound := intstr.FromString(row.text)
		scaled, err := intstr.GetScaledValueFromIntOrPercent(&bound, row.total, true)
		fmt.Printf("%s of %d: %d, refused: %v\n", row.text, row.total, scaled, err != nil)
	}
}
GO
cat > expected <<'END'
-5% of 10: 0, refused: false
-50% of 10: -5, refused: false
07% of 100: 7, refused: false
+5% of 100: 5, refused: false
150% of 3: 5, refused: false
1.5% of 100: 0, refused: true
5 of 10: 0, refused: true
END
go mod init finding >/dev/null 2>&1
go get k8s.io/apimachinery@v0.36.3 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
