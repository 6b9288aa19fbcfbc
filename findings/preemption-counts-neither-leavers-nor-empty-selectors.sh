#!/usr/bin/env bash
# kube-scheduler preempts beside a Pod that is leaving anyway, and takes a budget without a selector's words for none.
#
# Versions:  kube-apiserver and kube-scheduler of k8s.io/kubernetes v1.36.3, etcd v3.6.8
# Guess:     room of a Pod that its user deletes is waited for, and no other is preempted; a PodDisruptionBudget with `selector: {}` guards
#            all Pods of its namespace from preemption (where there is a choice) as it does from evictions. The second guess was written down
#            after the Go source was read.
# Seen:      where the Pod that leaves has started before the other, the other one is preempted too; where it started later, it alone goes. A
#            budget with `selector: {}` makes evictions wait (429) and counts for nothing when victims are chosen: its Pod of the lower
#            priority goes; with labels in the selector it stays, and one of a higher priority goes.
# Means:     a reserve of low-priority Pods may lose one Pod more than was needed; write labels into selectors of budgets.
#
# Needs Go and its module proxy, openssl and python3; builds three programs (ten minutes). Prints what was seen; ends with 1 when that is no
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
        $'\t_ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n\t_ "k8s.io/kubernetes/cmd/kube-scheduler/app"\n\t_ "go.etcd.io/etcd/server/v3/etcdmain"\n' > main.go
    go mod tidy
    mkdir etcd-main && printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' > etcd-main/main.go
    version=k8s.io/component-base/version  # which a release is told when it is built
    flags="-X $version.gitVersion=v1.$minor -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}"
    go build -ldflags "$flags" -o . k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-scheduler
    go build -o etcd ./etcd-main
} > build.log 2>&1 || { tail -n 5 build.log; exit 1; }

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
etcd=$(free) peers=$(free) port=$(free) scheduler=$(free)
openssl genrsa -out account.key 2048 2>/dev/null
echo 'secret,admin,admin,system:masters' > tokens.csv
./etcd --data-dir data --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peers" > etcd.log 2>&1 & started+=($!)
./kube-apiserver --etcd-servers "http://127.0.0.1:$etcd" --bind-address 127.0.0.1 --secure-port "$port" --cert-dir certificates \
    --token-auth-file tokens.csv --authorization-mode AlwaysAllow --service-account-issuer https://finding.invalid \
    --service-account-key-file account.key --service-account-signing-key-file account.key \
    --disable-admission-plugins ServiceAccount,TaintNodesByCondition > server.log 2>&1 & started+=($!)
cat > kubeconfig <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
 "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:$port", "insecure-skip-tls-verify": true}}],
 "users": [{"name": "x", "user": {"token": "secret"}}]}
END
cat > drive.py <<'PY'
import json
import ssl
import sys
import time
import urllib.error
import urllib.request

BASE = f"https://127.0.0.1:{sys.argv[1]}"
OPEN = ssl._create_unverified_context()
KINDS = {"merge": "application/merge-patch+json", "json": "application/json"}


def ask(method, path, body=None, kind="json"):
    """Status code and body of one request."""
    request = urllib.request.Request(BASE + path, json.dumps(body).encode() if body is not None else None, method=method)
    request.add_header("Authorization", "Bearer secret")
    request.add_header("Content-Type", KINDS[kind])
    try:
        with urllib.request.urlopen(request, context=OPEN, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")
    except OSError as error:
        return 0, str(error)


def sure(*words, **more):
    code, body = ask(*words, **more)
    assert code in (200, 201), (words, code, body)
    return body


def until(true, what):
    for _ in range(600):
        if found := true():
            return found
        time.sleep(0.1)
    raise SystemExit(f"waited in vain: {what}")


def pod(name, namespace, node="", priority="", minute=0, cpu="1", labels=None):
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], "priorityClassName": priority}
    spec |= {"nodeName": node} if node else {}
    at = f"/api/v1/namespaces/{namespace}/pods"
    sure("POST", at, {"metadata": {"name": name, "labels": labels or {"app": name}}, "spec": spec})
    if node:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "startTime": f"2026-01-01T00:{minute:02}:00Z", "conditions": ready}
        sure("PATCH", f"{at}/{name}/status", {"status": status}, kind="merge")


def node(name, cpu):
    room = {"cpu": cpu, "memory": "1Gi", "pods": "10"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
    sure("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room, "conditions": ready}})


def leaving(*pods):
    """Those of these (namespace, name) that are being deleted."""
    found = [sure("GET", f"/api/v1/namespaces/{space}/pods/{name}") for space, name in pods]
    return sorted(each["metadata"]["name"] for each in found if "deletionTimestamp" in each["metadata"])


def promised(namespace):
    return sure("GET", f"/api/v1/namespaces/{namespace}/pods/new").get("status", {}).get("nominatedNodeName")


def clear(*names):
    for name in names:
        sure("DELETE", f"/api/v1/nodes/{name}")
    for space in ("one", "two"):
        for each in sure("GET", f"/api/v1/namespaces/{space}/pods")["items"]:
            sure("DELETE", f"/api/v1/namespaces/{space}/pods/{each['metadata']['name']}", {"gracePeriodSeconds": 0})
        until(lambda at=space: not sure("GET", f"/api/v1/namespaces/{at}/pods")["items"], "no pods")


def beside_a_leaver(first, second):
    node("n", "2")
    pod(first, "one", "n", minute=1)
    pod(second, "one", "n", minute=2)
    sure("DELETE", "/api/v1/namespaces/one/pods/leaves")
    pod("new", "one", priority="ten")
    until(lambda: promised("one"), "a promise")
    time.sleep(1)
    gone = leaving(("one", "leaves"), ("one", "stays"))
    clear("n")
    return f"{first} started before {second}: {', '.join(gone)} end"


def with_budget(selector):
    node("a", "1")
    node("b", "1")
    pod("guarded", "one", "a", minute=1)
    pod("plain", "two", "b", priority="five", minute=1)
    budget = "/apis/policy/v1/namespaces/one/poddisruptionbudgets"
    sure("POST", budget, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": selector}})
    sure("PATCH", f"{budget}/x/status", {"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
                                                    "desiredHealthy": 1, "expectedPods": 1}}, kind="merge")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}}
    code, _ = ask("POST", "/api/v1/namespaces/one/pods/guarded/eviction", eviction)
    time.sleep(1)
    pod("new", "two", priority="ten")
    until(lambda: promised("two"), "a promise")
    gone = until(lambda: leaving(("one", "guarded"), ("two", "plain")), "a victim")
    sure("DELETE", f"{budget}/x")
    clear("a", "b")
    return f"budget with {json.dumps(selector)}: eviction {code}, preempted: {', '.join(gone)}"



until(lambda: ask("GET", "/api/v1/namespaces/default")[0] == 200, "a server")
for name, value in (("five", 5), ("ten", 10)):
    sure("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
for name in ("one", "two"):
    sure("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
print(beside_a_leaver("leaves", "stays"))
print(beside_a_leaver("stays", "leaves"))
print(with_budget({"matchLabels": {"app": "guarded"}}))
print(with_budget({}))
PY
./kube-scheduler --kubeconfig kubeconfig --authentication-kubeconfig kubeconfig --authorization-kubeconfig kubeconfig \
    --leader-elect=false --bind-address 127.0.0.1 --secure-port "$scheduler" > scheduler.log 2>&1 & started+=($!)
python3 drive.py "$port" > seen
cat > expected <<'END'
leaves started before stays: leaves, stays end
stays started before leaves: leaves end
budget with {"matchLabels": {"app": "guarded"}}: eviction 429, preempted: plain
budget with {}: eviction 429, preempted: guarded
END
cat seen
diff expected seen
