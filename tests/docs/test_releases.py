"""The version says the same everywhere, and what is shipped around the code fits to it."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from kubewright import __version__
from kubewright.api import rbac
from kubewright.api.webhooks.configurations import NAME
from kubewright.cli.app import app
from kubewright.compose.options import Options
from kubewright.compose.worlds import chosen

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HOW_TO = ROOT / "docs" / "how-to" / "install-on-a-cluster.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROGRAM = ".venv/bin/kubewright"
"""What the program is called after ``make setup``."""
HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
CHAPTER = re.compile(r"^## (.+)$", re.MULTILINE)
RELEASE = re.compile(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}")


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_the_changelog_begins_with_what_is_unreleased_and_knows_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *releases = CHAPTER.findall(text)
    assert first == "Unreleased"
    assert all(RELEASE.fullmatch(each) for each in releases)
    assert releases[0].startswith(f"{__version__} - ")
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= HEADINGS


def test_images_are_tagged_with_this_version() -> None:
    named = {path: set(re.findall(r"kubewright:(\d\S*?)(?=[\s`])", path.read_text())) for path in manifests()}
    assert {tag for tags in named.values() for tag in tags} == {__version__}


def test_the_chart_has_this_version() -> None:
    chart = read("chart/Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def manifests() -> list[Path]:
    return [DEPLOY / "deployment.yaml", DEPLOY / "Containerfile", HOW_TO]


def test_the_account_of_the_deployment_is_the_one_that_the_roles_are_bound_to() -> None:
    account, deployment = read("service-account.yaml"), read("deployment.yaml")
    assert account["metadata"] == {"name": rbac.ACCOUNT, "namespace": rbac.NAMESPACE}
    assert read("namespace.yaml")["metadata"]["name"] == rbac.NAMESPACE
    assert deployment["metadata"]["namespace"] == rbac.NAMESPACE
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == rbac.ACCOUNT


def test_the_installations_have_every_manifest() -> None:
    read_by_others = {DEPLOY / "monitoring" / name for name in ("rules.yaml", "rules-test.yaml")}
    there = {
        path
        for path in DEPLOY.rglob("*.yaml")
        if path.name != "kustomization.yaml" and not path.is_relative_to(DEPLOY / "chart")
    } - read_by_others
    listed = {
        path.parent / each for path in DEPLOY.rglob("kustomization.yaml") for each in read_by_kustomize(path)
    }
    assert listed == there


def read_by_kustomize(kustomization: Path) -> list[str]:
    """The files that it names: objects, and patches of them."""
    body = yaml.safe_load(kustomization.read_text())
    return [*body.get("resources", ()), *(p["path"] for p in body.get("patches", ()) if "path" in p)]


def container() -> Any:
    return read("deployment.yaml")["spec"]["template"]["spec"]["containers"][0]


def test_a_pod_has_no_more_rights_on_its_node_than_it_needs() -> None:
    pod = read("deployment.yaml")["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_replicas_are_kept_apart_and_one_stays_when_pods_are_evicted() -> None:
    deployment, budget = read("deployment.yaml"), read("pod-disruption-budget.yaml")
    pod = deployment["spec"]["template"]
    spread = pod["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    selectors = [each["labelSelector"] for each in spread] + [budget["spec"]["selector"]]
    assert all(each["matchLabels"] == pod["metadata"]["labels"] for each in selectors)
    assert budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]


def test_the_network_policy_lets_each_port_in_that_is_served() -> None:
    policy = read("network-policy/network-policy.yaml")["spec"]
    let_in = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert let_in == {each["name"] for each in container()["ports"]} | {
        each["containerPort"] for each in added("ports")
    }
    labels = read("deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"] == {"matchLabels": labels}


def added(path: str) -> list[Any]:
    """What the component of clusters adds to lists of the container at ``path``."""
    patches = yaml.safe_load(read("clusters/kustomization.yaml")["patches"][0]["patch"])
    where = f"/spec/template/spec/containers/0/{path}/-"
    return [each["value"] for each in patches if each["path"] == where]


def test_the_arguments_that_clusters_add_are_understood_by_run() -> None:
    command: Any = typer.main.get_command(app)
    switches = command.commands["run"].make_context("run", added("args")).params
    words = tuple(",".join(switches["controllers"]).split(","))
    assert {"cluster", "kubeadmconfig"} < {each.name for each in chosen(Options(controllers=words))}
    assert [each["containerPort"] for each in added("ports")] == [switches["webhook_port"]]


def test_the_webhooks_are_found_under_their_names() -> None:
    service, *told = yaml.safe_load_all((DEPLOY / "clusters" / "webhooks.yaml").read_text())
    assert {each["metadata"]["name"] for each in (service, *told)} == {NAME}
    assert service["metadata"]["namespace"] == rbac.NAMESPACE
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, added("ports")[0]["name"])
    labels = read("deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def called() -> list[tuple[str, list[str]]]:
    """What the manifests and the page call the program with."""
    container = read("deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    page = HOW_TO.read_text()
    patched = re.findall(r"value: (--[\w=./-]+)", page)
    return [
        ("the deployment", container["args"]),
        ("the overlays", ["run", *dict.fromkeys(patched)]),
        *((line, line.split()) for line in typed()),
    ]


def typed() -> list[str]:
    """What the pages type after the program's name, without comments and pipes."""
    text = "\n".join(page.read_text() for page in PAGES)
    return [
        re.split(r"  #| \|", line)[0].strip()
        for line in re.findall(rf"^\$ {re.escape(PROGRAM)} (.+)$", text, re.MULTILINE)
    ]


def test_the_pages_call_the_program_by_the_path_that_it_has_after_make_setup() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    assert re.findall(r"^\$ (?:\w+=\S+ )*((?:kubewright|python|pytest)\b.*)$", text, re.MULTILINE) == []
    assert len(typed()) >= 4


@pytest.mark.parametrize("words", [each[1] for each in called()], ids=[each[0] for each in called()])
def test_what_is_shipped_calls_the_program_with_words_that_it_knows(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    command.commands[words[0]].make_context(words[0], words[1:])


def test_the_probes_ask_the_port_that_is_served() -> None:
    container = read("deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    (port,) = container["ports"]
    assert f"--health-port={port['containerPort']}" in container["args"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
    assert {probe["port"] for probe in probes} == {port["name"]}
