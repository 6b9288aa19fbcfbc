#!/usr/bin/env bash
# API Priority and Fairness: a level without seats serves, a FlowSchema without a level is passed over, and names decide between equals.
#
# Versions:  kube-apiserver of k8s.io/kubernetes v1.36.3, etcd v3.6.8
# Guess:     `nominalConcurrencyShares: 0` counts as left out and becomes 30; a FlowSchema that names a level which does not exist is refused, or
#            its requests are; of two FlowSchemas with one matchingPrecedence the older one wins. All three were wrong.
# Seen:      0 is stored, the metric says 0 seats, and with `limitResponse: Reject` a request is served all the same while no other runs; the
#            FlowSchema is created without a warning, has the condition Dangling, and the next one that matches takes its requests; of equals
#            the one whose name sorts first wins, whichever is older.
# Means:     0 shares do not block a client, they serve one request at a time; wait for Dangling=False after a FlowSchema was applied; give
#            each FlowSchema a matchingPrecedence of its own.
#
# Needs Go and its module proxy, openssl and python3; builds two programs (eight minutes). Prints what was seen; ends with 1 when that is no
# longer so.
set -euo pipefail
folder=$(mktemp -d)
started=()
trap 'kill -9 "${started[@]}" 2>/dev/null || true; wait 2>/dev/null; chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
minor=36.3
{
    go mod init finding
    go mod download -json "k8s.io/kubernetes@v1.$minor" > module
    published=(-require "k8s.io/kubernetes@v1.$minor")
    while read -r name; do
        published+=(-replace "$name=$name@v0.$minor")
    done < <(sed -n 's|^\t*\(k8s.io/[a-z0-9-]*\) => ./staging.*|\1|p' "$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' module)")
    go mod edit "${published[@]}" -require go.etcd.io/etcd/server/v3@v3.6.8
    printf 'package main\n\nimport (\n%s)\n\nfunc main() {}\n' \
        $'\t_ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n\t_ "go.etcd.io/etcd/server/v3/etcdmain"\n' > main.go
    go mod tidy
    mkdir etcd-main && printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' > etcd-main/main.go
    version=k8s.io/component-base/version  # which a release is told when it is built
    flags="-X $version.gitVersion=v1.$minor -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}"
    go build -ldflags "$flags" -o . k8s.io/kubernetes/cmd/kube-apiserver
    go build -o etcd ./etcd-main
} > build.log 2>&1 || { tail -n 5 build.log; exit 1; }

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
etcd=$(free) peers=$(free) port=$(free)
openssl genrsa -out account.key 2048 2>/dev/null
echo 'secret,admin,admin,system:masters' > tokens.csv
./etcd --data-dir data --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peers" > etcd.log 2>&1 & started+=($!)
./kube-apiserver --etcd-servers "http://127.0.0.1:$etcd" --bind-address 127.0.0.1 --secure-port "$port" --cert-dir certificates \
    --token-auth-file tokens.csv --authorization-mode AlwaysAllow --service-account-issuer https://finding.invalid \
    --service-account-key-file account.key --service-account-signing-key-file account.key \
    --disable-admission-plugins ServiceAccount,TaintNodesByCondition > server.log 2>&1 & started+=($!)
cat > drive.py <<'PY'
import json
import ssl
import sys
import time
import urllib.error
import urllib.request

BASE = f"https://127.0.0.1:{sys.argv[1]}"
OPEN = ssl._create_unverified_context()
FLOWS, LEVELS = (f"/apis/flowcontrol.apiserver.k8s.io/v1/{kind}" for kind in ("flowschemas", "prioritylevelconfigurations"))
CLIENT = {"Impersonate-User": "system:serviceaccount:default:a", "Impersonate-Group": "system:serviceaccounts"}


def ask(method, path, body=None, headers=None):
    """Status code, headers and body of one request."""
    request = urllib.request.Request(BASE + path, json.dumps(body).encode() if body is not None else None, method=method)
    for name, value in {"Authorization": "Bearer secret", "Content-Type": "application/json", **(headers or {})}.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, context=OPEN, timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()
    except OSError as error:
        return 0, {}, str(error)


def sure(*words):
    code, _, body = ask(*words)
    assert code in (200, 201), (words, code, body)
    return json.loads(body)


def until(true, what):
    for _ in range(600):
        if found := true():
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited in vain: {what}")


def flow(name, precedence, level):
    """Makes a FlowSchema for the client; 201 or what the server says."""
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "a", "namespace": "default"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}],
    }
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule]}
    code, headers, _ = ask("POST", FLOWS, {"metadata": {"name": name}, "spec": spec})
    return f"{code}, {'a warning' if headers.get('Warning') else 'no warning'}"


def served():
    """How a request of the client ends, and the FlowSchema and level it was given."""
    code, headers, _ = ask("GET", "/api/v1/namespaces/default/pods", None, CLIENT)
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for kind in (FLOWS, LEVELS) for each in sure("GET", kind)["items"]}
    found = [names[headers[f"X-Kubernetes-PF-{what}-UID"]] for what in ("FlowSchema", "PriorityLevel")]
    return f"{code} by {' at '.join(found)}"


def dangling(name):
    told = sure("GET", f"{FLOWS}/{name}").get("status", {}).get("conditions", [])
    return next((each["status"] for each in told if each["type"] == "Dangling"), "")


def settled(name):
    until(lambda: dangling(name), f"a condition of {name}")
    time.sleep(1)


until(lambda: ask("GET", "/readyz")[0] == 200 and ask("GET", f"{FLOWS}/service-accounts")[0] == 200, "a server")
print(f"before: {served()}")
print(f"a level that does not exist: {flow('lost', 500, 'no-such-level')}", end="")
settled("lost")
print(f"; Dangling={dangling('lost')}; {served()}")
level = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}}
made = sure("POST", LEVELS, {"metadata": {"name": "zero"}, "spec": level})
flow("to-zero", 400, "zero")
settled("to-zero")
wanted = 'apiserver_flowcontrol_nominal_limit_seats{priority_level="zero"} '
seats = until(lambda: [x for x in ask("GET", "/metrics")[2].splitlines() if x.startswith(wanted)], "a metric")[0].split()[-1]
print(f"0 shares: stored {made['spec']['limited']['nominalConcurrencyShares']}, {seats} seats; {served()}")
sure("DELETE", f"{FLOWS}/to-zero")
for name in ("zz-older", "aa-newer"):
    flow(name, 600, "workload-low")
    settled(name)
sure("DELETE", f"{FLOWS}/lost")
time.sleep(1)
print(f"of equals: {served()}")
PY
python3 drive.py "$port" > seen
cat > expected <<'END'
before: 200 by service-accounts at workload-low
a level that does not exist: 201, no warning; Dangling=True; 200 by service-accounts at workload-low
0 shares: stored 0, 0 seats; 200 by to-zero at zero
of equals: 200 by aa-newer at workload-low
END
cat seen
diff expected seen
