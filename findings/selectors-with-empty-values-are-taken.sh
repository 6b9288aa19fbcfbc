#!/usr/bin/env bash
# A selector in text form may list no value at all, and means the empty one.
#
# Versions:  k8s.io/apimachinery v0.36.3
# Guess:     `a in ()` is a syntax error, as the same selector in an object (In without values) is.
# Seen:      `a in ()` is parsed, and selects objects whose label a is the empty text; so does a doubled comma.
# Means:     a list that a script puts together from nothing selects by "", not everything and not nothing; the object form refuses.
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func main() {
	for _, text := range []string{"a in ()", "a in (b,,c)", "a="} {
		selector, err := labels.Parse(text)
		fmt.Printf("%s: %v", text, err)
		for _, set := range []labels.Set{{"a": ""}, {"a": "b"}, {}} {
			fmt.Printf(" %v=%v", set, selector.Matches(set))
		}
		fmt.Println()
	}
	empty := metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpIn}
	_, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{empty}})
	fmt.Println("as an object it is refused:", err != nil)
}
GO
cat > expected <<'END'
a in (): <nil> a==true a=b=false =false
a in (b,,c): <nil> a==true a=b=true =false
a=: <nil> a==true a=b=false =false
as an object it is refused: true
END
go mod init finding >/dev/null 2>&1
go get k8s.io/apimachinery@v0.36.3 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run . > seen
cat seen
diff expected seen
