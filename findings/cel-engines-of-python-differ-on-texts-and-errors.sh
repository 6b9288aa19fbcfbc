#!/usr/bin/env bash
# Engines of CEL for Python give other answers than CEL's specification (and cel-go) on letters, errors in loops and mixed types.
#
# Versions:  cel-expr-python 0.1.3 (cel-cpp), common-expression-language 0.10.0 (cel-rust), cel-python 0.5.0
# Guess:     all three answer as the specification says: size counts letters, exists() survives an error of an item, true is not 1.
# Seen:      cel-cpp does. cel-rust counts bytes, ends exists() by the first error, and takes no double as a key.
#            cel-python says that true equals 1, and raises where values of different types are compared.
# Means:     a rule that a kube-apiserver takes can pass or fail elsewhere: check rules with cel-go, or compare both first.
#
# Needs Python with pip. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > ask.py <<'PY'
import sys

EXPRESSIONS = [
    "size('\u00e4')",
    "[0, 1].exists(x, 1 / x == 1)",
    "dyn(true) == dyn(1)",
    "dyn('a') == dyn(1)",
    "{1: 'a'}[dyn(1.0)]",
]
if sys.argv[1] == "cel-expr-python":
    from cel_expr_python import cel

    env = cel.NewEnv(variables={})
    ask = lambda text: env.compile(text).eval(data={})
elif sys.argv[1] == "common-expression-language":
    import cel

    ask = lambda text: cel.evaluate(text, {})
else:
    import celpy

    env = celpy.Environment()
    ask = lambda text: env.program(env.compile(text)).evaluate({})
for text in EXPRESSIONS:
    try:
        said = str(ask(text)).strip('"').lower()
    except Exception:
        said = "an error"
    print(f"{sys.argv[1]}: {text} is {said}")
PY
cat > expected <<'END'
cel-expr-python: size('ä') is 1
cel-expr-python: [0, 1].exists(x, 1 / x == 1) is true
cel-expr-python: dyn(true) == dyn(1) is false
cel-expr-python: dyn('a') == dyn(1) is false
cel-expr-python: {1: 'a'}[dyn(1.0)] is a
common-expression-language: size('ä') is 2
common-expression-language: [0, 1].exists(x, 1 / x == 1) is an error
common-expression-language: dyn(true) == dyn(1) is false
common-expression-language: dyn('a') == dyn(1) is false
common-expression-language: {1: 'a'}[dyn(1.0)] is an error
cel-python: size('ä') is 1
cel-python: [0, 1].exists(x, 1 / x == 1) is true
cel-python: dyn(true) == dyn(1) is true
cel-python: dyn('a') == dyn(1) is an error
cel-python: {1: 'a'}[dyn(1.0)] is an error
END
for engine in cel-expr-python==0.1.3 common-expression-language==0.10.0 cel-python==0.5.0; do
	name=${engine%%==*}
	python3 -m venv "venv-$name"
	"venv-$name/bin/pip" -q --disable-pip-version-check install "$engine"
	PYTHONUTF8=1 "venv-$name/bin/python" ask.py "$name"
done > seen
cat seen
diff expected seen
