"""Admission webhooks on a real kube-apiserver: it answers as the embedded server, and nothing waits for them."""

import asyncio
import base64
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.admission import BAD, BARE, WARNED, Body, made, path_of
from tests.conformance.clusters import EXAMPLE, install, our_part, phase, simulated_cloud, until

from kubewright.api import rbac
from kubewright.api.catalog import RULES, crds
from kubewright.api.webhooks.configurations import MUTATING, NAME, VALIDATING, Address, FailurePolicy
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.compose.options import Options as OurOptions
from kubewright.compose.options import WebhookOptions
from kubewright.compose.webhooks import Webhooks
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.scope import Namespaces
from kubewright.kube.transport import InProcess
from kubewright.pki.keys import pems
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.webhooks.certificates import Lifetimes
from kubewright.testing.api import Answer, Api
from kubewright.testing.clocks import LoopClock
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.real_kubernetes.cluster import free_ports
from kubewright.testing.servers import real_api
from kubewright.wire.gvk import Key, Resource

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[2] / "deploy"
GROUPS = ("clusters", "bootstrap", "infrastructure")
WORLDS = ("clusters", "bootstrap", "infra")
BAD_MACHINE = BAD["a Machine without bootstrap data"]
BARE_DEPLOYMENT = BARE["a MachineDeployment"]


@asynccontextmanager
async def a_server(*flags: str) -> AsyncIterator[tuple[RealKubernetes, Api]]:
    """A real server with our CRDs."""
    options = Options(fsync=False, apiserver_flags=flags)
    async with RealKubernetes(find(), SystemClock(), options) as real, real_api(real) as api:
        await install(api, list(crds(*GROUPS)))
        yield real, api


@asynccontextmanager
async def an_embedded_one() -> AsyncIterator[Api]:
    """The embedded server with the same CRDs, which calls the rules in process."""
    clock = LoopClock()
    server = ApiServer(clock, admission=RULES)
    await server.start()
    api = Api(InProcess(server.handle), clock, "embedded")
    await install(api, list(crds(*GROUPS)))
    yield api
    await server.close()


def at_a_free_port(**choices: Any) -> WebhookOptions:
    (port,) = free_ports(1)
    return WebhookOptions(port, Address(url=f"https://127.0.0.1:{port}"), **choices)


@asynccontextmanager
async def ours(real: RealKubernetes, webhooks: WebhookOptions | None, **choices: Any) -> AsyncIterator[None]:
    """Our controllers of clusters, and these webhooks."""
    async with (
        simulated_cloud() as (cloud, _),
        our_part(real.kubeconfig, WORLDS, cloud, webhooks=webhooks, **choices),
    ):
        yield


async def asked(api: Api) -> None:
    """Wait until the server asks the webhooks: it hears of a configuration a moment after it was written."""

    async def refused() -> bool:
        return (await dry(api, BAD_MACHINE)).code == 422

    await api.eventually(refused, "the webhooks are asked", seconds=30)


async def dry(api: Api, body: Body, namespace: str = "default") -> Answer:
    """What would come of creating an object."""
    return await api.post(path_of(body, namespace=namespace), body, dryRun="All")


def refusal(answer: Answer) -> tuple[int, str, Any]:
    """What a refusal says, but for the words that a server puts before those of a webhook."""
    message = answer.message.partition("denied the request: ")[2] or answer.message
    return answer.code, message, answer.body.get("details")


async def test_a_real_server_answers_as_the_embedded_one() -> None:
    async with (
        a_server() as (real, api),
        an_embedded_one() as embedded,
        ours(real, at_a_free_port()),
    ):
        await asked(api)
        expected = {name: refusal(await dry(embedded, body)) for name, body in BAD.items()}
        assert {name: refusal(await dry(api, body)) for name, body in BAD.items()} == expected
        assert {code for code, _, _ in expected.values()} == {422}
        assert all(details["causes"] for _, _, details in expected.values())

        completed = {name: (await dry(embedded, body)).ok() for name, body in BARE.items()}
        found = {name: (await dry(api, body)).ok() for name, body in BARE.items()}
        for name, body in completed.items():
            assert found[name]["spec"] == body["spec"], name
            assert found[name]["metadata"].get("labels") == body["metadata"].get("labels"), name

        warnings = [(await dry(each, WARNED)).headers["warning"] for each in (api, embedded)]
        assert warnings[0] == warnings[1]
        await changes_are_judged_alike(api, embedded)
        await generated_names_are_in_selectors(api, embedded)


async def generated_names_are_in_selectors(*servers: Api) -> None:
    """A set whose name the server generates selects its own machines, not those of all such sets."""
    for api in servers:
        body = {**BARE["a MachineSet"], "metadata": {"generateName": "o-"}}
        stored = (await api.post(path_of(body), body)).ok()
        label = {"cluster.x-k8s.io/set-name": stored["metadata"]["name"]}
        assert label.items() <= stored["spec"]["selector"]["matchLabels"].items()
        assert len(stored["metadata"]["name"]) == len("o-xxxxx")


async def changes_are_judged_alike(*servers: Api) -> None:
    """A change of what must not change is refused, and a label that is taken off comes back."""
    answers = []
    for api in servers:
        (await api.post(path_of(BARE_DEPLOYMENT), BARE_DEPLOYMENT)).ok()
        path = path_of(BARE_DEPLOYMENT, "o")
        moved = refusal(await api.patch(path, {"spec": {"clusterName": "d"}}))
        unlabelled = (await api.patch(path, {"metadata": {"labels": None}})).ok()
        answers.append((moved, unlabelled["metadata"]["labels"]))
    assert answers[0] == answers[1]
    assert answers[0][0][0] == 422
    assert answers[0][1] == {"cluster.x-k8s.io/cluster-name": "c"}


def own_address() -> str:
    """An address of this machine beyond loopback, which no EndpointSlice may have; empty: there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing; 192.0.2.0/24 is for documentation
        except OSError:
            return ""
        return str(asking.getsockname()[0])


async def test_a_server_asks_by_a_service() -> None:
    """It finds the port behind the Service itself, as it does with --enable-aggregator-routing."""
    if not (address := own_address()) or address.startswith("127."):
        pytest.skip("this machine has no address that an EndpointSlice may have")
    (port,) = free_ports(1)
    service = Key("default", NAME)
    async with a_server("--enable-aggregator-routing=true") as (real, api):
        ports = [{"name": "https", "port": 443, "targetPort": port}]
        made = {"metadata": {"name": NAME}, "spec": {"ports": ports}}
        (await api.post("/api/v1/namespaces/default/services", made)).ok()
        behind = {
            "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        }
        (await api.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", behind)).ok()
        async with ours(real, WebhookOptions(port, Address(service=service), host=address)):
            await asked(api)
            completed = (await dry(api, BARE_DEPLOYMENT)).ok()
            assert completed["spec"]["selector"]["matchLabels"]
            path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
            hooks = (await api.get(path)).ok()["webhooks"]
            assert {each["clientConfig"]["service"]["name"] for each in hooks} == {NAME}


async def test_a_server_asks_about_our_namespaces() -> None:
    async with a_server() as (real, api):
        for name in ("team-a", "team-b"):
            (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
        async with ours(real, at_a_free_port(), namespaces=Namespaces.parsed("team-*", "team-b")):

            async def refused() -> bool:
                return (await dry(api, BAD_MACHINE, "team-a")).code == 422

            await api.eventually(refused, "the webhooks are asked", seconds=30)
            for namespace in ("team-b", "default"):
                assert (await dry(api, BAD_MACHINE, namespace)).code == 201


# ---------------------------------------------------------------- kubectl and the program


@contextmanager
def the_program(real: RealKubernetes, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """``kubewright run`` as a process of its own, as an admin starts it outside of the cluster."""
    command = [sys.executable, "-m", "kubewright", "run", f"--kubeconfig={real.kubeconfig}", *words]
    log = (real.folder / "kubewright.log").open("wb")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as program:
        try:
            yield program
        finally:
            program.terminate()
            program.wait(20)


async def test_kubectl_shows_causes_defaults_and_warnings(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with a_server() as (real, api):
        kubectl = Kubectl(real.binaries.kubectl, real.kubeconfig, tmp_path, "real", "default")

        async def apply(body: Body) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(kubectl.run, "apply", "-f", "-", stdin=json.dumps(body))

        with the_program(
            real,
            "--controllers=clusters,bootstrap",
            f"--webhook-port={port}",
            f"--webhook-url=https://127.0.0.1:{port}",
        ):
            await asked(api)
            for name in (
                "a Cluster with a topology",
                "a Machine without bootstrap data",
                "a MachineDeployment with a surge that is none",
                "a KubeadmConfig that writes a file twice",
            ):
                done = await apply(BAD[name])
                assert done.returncode == 1, name
                assert f'The {BAD[name]["kind"]} "o" is invalid: ' in done.stderr
                causes = (await dry(api, BAD[name])).causes
                assert causes
                assert all(f"{field}: {message}" in done.stderr for _, field, message in causes)
            assert (await apply(BARE_DEPLOYMENT)).returncode == 0
            shown = await asyncio.to_thread(
                kubectl, "get", "machinedeployments.v1beta1.cluster.x-k8s.io", "o", "-o", "json"
            )
            assert json.loads(shown)["spec"]["progressDeadlineSeconds"] == 600
            assert "Warning: spec.useExperimentalRetryJoin is deprecated" in (await apply(WARNED)).stderr

        stored = await apply(BAD_MACHINE)  # the program has ended: by default nothing waits for it
        assert (stored.returncode, stored.stderr) == (0, "")
        secret = (await api.get(api.at("secrets", NAME))).ok()
        said = (real.folder / "kubewright.log").read_text()
        assert "the API server is told of the webhooks" in said
        assert secret["data"]["tls.key"][:40] not in said
        assert "PRIVATE KEY" not in said


# ---------------------------------------------------------------- certificates


async def test_new_certificates_and_authorities_refuse_nothing() -> None:
    """Lives of seconds; and a server that refuses what a webhook does not answer."""
    quick = Lifetimes(*(timedelta(seconds=each) for each in (18, 7.5, 2, 3)))
    chosen = at_a_free_port(policy=FailurePolicy.FAIL, lifetimes=quick)
    async with a_server() as (real, api), ours(real, chosen):
        await asked(api)
        bundles, served, overlaps, wrong = set(), set(), 0, []
        until_then = api.clock.monotonic() + 40
        while api.clock.monotonic() < until_then:
            bundle = await trusted(api)
            answers = await asyncio.gather(*(dry(api, body) for body in (BAD_MACHINE, BARE_DEPLOYMENT)))
            if [each.code for each in answers] != [422, 201] or "replicas" not in answers[1].body["spec"]:
                wrong.append([each.message for each in answers])
            served.add(await shown(chosen.port, bundle))
            overlaps += len(pems(bundle)) > 1
            bundles |= set(pems(bundle))
            await asyncio.sleep(0.05)
        assert not wrong
        assert (len(bundles) >= 3, len(served) >= 5, overlaps > 0) == (True, True, True)


async def trusted(api: Api) -> bytes:
    """The authorities that the server trusts when it calls."""
    told = (await api.get(VALIDATING.resource.path(name=NAME))).ok()
    (bundle,) = {each["clientConfig"]["caBundle"] for each in told["webhooks"]}
    return base64.b64decode(bundle)


async def shown(port: int, bundle: bytes) -> bytes:
    """The certificate of a new handshake, by which a client that trusts ``bundle`` is content."""
    context = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(found)


# ---------------------------------------------------------------- away


def bare_example() -> Iterator[Body]:
    """The example as a user writes it, and with versions that have no ``v``."""
    for body in filter(None, yaml.safe_load_all(EXAMPLE.read_text())):
        for spec in (body["spec"], body["spec"].get("template", {}).get("spec", {})):
            if "version" in spec:
                spec["version"] = spec["version"].removeprefix("v")
        yield body


async def test_a_cluster_lives_while_no_webhook_answers() -> None:
    """Objects that bypassed them are treated as if they had their defaults."""
    async with a_server() as (real, api):
        chosen = at_a_free_port()
        async with ours(real, chosen):
            await asked(api)
        async with ours(real, None):
            for body in bare_example():
                stored = (await api.post(path_of(body), body)).ok()
                assert stored["spec"] == body["spec"]
            deployment = path_of(BARE_DEPLOYMENT, "blue-workers")
            await until(api, deployment, lambda it: it.get("status", {}).get("readyReplicas") == 3)
            cluster = path_of(made(*CLUSTER, {}), "blue")
            await until(api, cluster, lambda it: phase(it) == "Provisioned")
            (await api.delete(cluster)).ok()
            await api.gone(cluster, seconds=90)


CLUSTER = ("cluster.x-k8s.io/v1beta1", "Cluster")


async def test_without_an_answer_fail_refuses_changes_and_lets_deletions_go_on() -> None:
    async with a_server() as (real, api):
        chosen = at_a_free_port(policy=FailurePolicy.FAIL)
        async with ours(real, chosen):
            await asked(api)
            (await api.post(path_of(BARE_DEPLOYMENT), BARE_DEPLOYMENT)).ok()
            path = path_of(BARE_DEPLOYMENT, "o")
            held = {"metadata": {"finalizers": ["example.com/held"]}}
            (await api.patch(path, held)).ok()

        async def refused_without_a_connection() -> bool:
            """Always refused: at first maybe on a kept connection, whose end the server has not seen (EOF)."""
            refused = await api.patch(path, {"spec": {"replicas": 2}})
            assert refused.code == 500
            assert 'failed calling webhook "default.machinedeployment.cluster.x-k8s.io"' in refused.message
            return "connection refused" in refused.message

        await api.eventually(refused_without_a_connection, "the server cannot connect", seconds=10)
        (await api.patch(f"{path}/status", {"status": {"replicas": 1}})).ok()
        (await api.delete(path)).ok()
        (await api.patch(path, {"metadata": {"finalizers": None}})).ok()
        await api.gone(path, seconds=30)
        for kind in (MUTATING, VALIDATING):
            (await api.delete(kind.resource.path(name=NAME))).ok()

        async def taken() -> bool:
            return (await dry(api, BAD_MACHINE)).code == 201

        await api.eventually(taken, "the webhooks are not asked any more", seconds=30)


# ---------------------------------------------------------------- in a cluster


async def test_the_shipped_roles_are_enough_to_fill_in_what_the_installation_makes() -> None:
    """As a pod: under its own account, told of a Service; here no API server can reach it."""
    account = f"system:serviceaccount:{rbac.NAMESPACE}:{rbac.ACCOUNT}"
    options = OurOptions(controllers=WORLDS, webhooks=WebhookOptions(0, Address(Key(rbac.NAMESPACE, NAME))))
    async with a_server() as (real, api):
        await installed(api, "namespace.yaml", "service-account.yaml", "clusters/webhooks-rbac.yaml")
        transport = from_secret(real.kubeconfig_for(account, "system:authenticated"))
        hooks = Webhooks(Client(transport, api.clock, name="pod"), options, "default", Metrics(), None)
        task = asyncio.create_task(hooks.run())

        async def says(words: str) -> bool:
            return words in hooks.keeper.not_ready() if words else not hooks.keeper.not_ready()

        try:
            missing = "we may not create it: kubectl apply -f deploy/clusters/webhooks.yaml"
            await api.eventually(lambda: says(missing), "it says what is missing", seconds=20)
            await installed(api, "clusters/webhooks.yaml")
            await api.eventually(lambda: says(""), "the configurations are filled in", seconds=20)
            told = [(await api.get(each.resource.path(name=NAME))).ok() for each in (MUTATING, VALIDATING)]
            services = [each["clientConfig"]["service"] for one in told for each in one["webhooks"]]
            assert {each["name"] for each in services} == {NAME}
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await transport.close()


async def installed(api: Api, *names: str) -> None:
    """Create what these manifests of the installation hold."""
    for name in names:
        for body in filter(None, yaml.safe_load_all((DEPLOY / name).read_text())):
            group, _, version = body["apiVersion"].rpartition("/")
            plural = f"{body['kind'].lower()}s"
            namespaced = "namespace" in body["metadata"]
            path = Resource(group, version, plural, body["kind"], namespaced).path(
                body["metadata"].get("namespace", "")
            )
            (await api.post(path, body)).ok()
