#!/usr/bin/env bash
# In Kubernetes' CEL `1 < 1.5` is an expression and `1 == 1.0` is none; sign is no member of a quantity; there is no base64 and no cel.bind.
#
# Versions:  k8s.io/apiserver v0.36.3 (cel-go v0.26.0)
# Guess:     numbers of different types are both ordered and compared for equality; quantity('1').sign() is as documented, and sign(...) is not
#            there; base64 and cel.bind are; a list of mixed types is none, but as an argument of format; a field called namespace is read as
#            self.__namespace__ only (not tried here: an expression alone has no schema).
# Seen:      ordered yes, equality no; sign(quantity('1')) and not the documented form; neither base64 nor cel.bind; format as guessed.
# Means:     try rules of a definition on a server, or with this environment, and not by the documents of CEL or of its functions.
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

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

func main() {
	env := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).NewExpressionsEnv()
	for _, text := range []string{"1 < 1.5", "1 == 1.0", "quantity('1').sign() == 1", "sign(quantity('1')) == 1", "[1, 2.0]", "'%d %s'.format([1, 'a'])", "base64.encode(b'a')", "cel.bind(x, 1, x == 1)"} {
		_, issues := env.Compile(text)
		fmt.Printf("%s compiles: %v\n", text, issues.Err() == nil)
	}
}
GO
cat > expected <<'END'
1 < 1.5 compiles: true
1 == 1.0 compiles: false
quantity('1').sign() == 1 compiles: false
sign(quantity('1')) == 1 compiles: true
[1, 2.0] compiles: false
'%d %s'.format([1, 'a']) compiles: true
base64.encode(b'a') compiles: false
cel.bind(x, 1, x == 1) compiles: false
END
go mod init finding >/dev/null 2>&1
go get k8s.io/apiserver@v0.36.3 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
