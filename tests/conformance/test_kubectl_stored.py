"""Commands of kubectl that ask for kinds on which nothing here acts."""

import json
from base64 import b64encode

import pytest

from kubewright.pki.certificates import new_request
from kubewright.testing.kubectl import Kubectl
from kubewright.wire.http import User

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
"""
CONFIG = """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: old, labels: {app: web}}
"""


def test_cluster_info_dumps_a_namespace(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    dumped = kubectl("cluster-info", "dump", "--namespaces", kubectl.namespace)
    assert '"kind": "ReplicationControllerList"' in dumped
    assert '"name": "web"' in dumped


def test_a_deployment_gets_an_autoscaler(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("autoscale", "deployment", "web", "--min=2", "--max=5")
    shown = kubectl("get", "hpa", "web", "--no-headers").split()
    assert shown[:6] == ["web", "Deployment/web", "cpu:", "<unknown>/80%", "2", "5"]


def test_what_is_applied_no_more_is_pruned(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", "-l", "app=web", "--prune", stdin=WEB + CONFIG)
    said = kubectl("apply", "-f", "-", "-l", "app=web", "--prune", stdin=WEB)
    assert "configmap/old pruned" in said
    assert json.loads(kubectl("get", "configmaps,deployments", "-l", "app=web", "-o", "json"))["items"][0][
        "kind"
    ] == ("Deployment")


def test_all_and_the_generators_of_kubectl(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "mine", "--hard=pods=10,requests.cpu=2")
    kubectl("create", "ingress", "front", "--rule=h.example/*=web:80", "--class=x")
    names = kubectl("get", "quota,ing,netpol,limits,rc,hpa", "-o", "name").split()
    assert names == ["resourcequota/mine", "ingress.networking.k8s.io/front"]
    kubectl("describe", "quota,ing")
    kubectl("get", "all")


def test_it_is_told_that_nothing_acts_on_them(kubectl: Kubectl) -> None:
    done = kubectl.run("create", "quota", "mine", "--hard=pods=10")
    told = "Warning: this server only stores ResourceQuotas, and enforces none of them"
    assert (told in done.stderr) == (kubectl.flavour == "embedded")


@pytest.mark.parametrize(("verb", "state"), [("approve", "Approved"), ("deny", "Denied")])
def test_a_request_for_a_certificate_is_decided_by_kubectl(kubectl: Kubectl, verb: str, state: str) -> None:
    name = f"{kubectl.namespace}-{verb}"
    request = b64encode(new_request(User("ann", ("people",)))[0]).decode()
    spec = {"request": request, "signerName": "example.com/own", "usages": ["client auth"]}
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    kubectl("apply", "-f", "-", stdin=json.dumps({**kind, "metadata": {"name": name}, "spec": spec}))
    assert kubectl("get", "csr", name, "--no-headers").split()[-1] == "Pending"
    assert f"{name} {state.lower()}" in kubectl("certificate", verb, name)
    assert kubectl("get", "csr", name, "--no-headers").split()[-1] == state
    assert "example.com/own" in kubectl("describe", "csr", name)
    kubectl("delete", "csr", name)
