"""``kubewright local``: which options fit together, and what is put back after any change by whichever hand."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kubewright.api.apps import Deployment, DeploymentSpec
from kubewright.api.core import Pod, PodSpec, PodStatus
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.cli.local import command
from kubewright.cli.local.plan import (
    IGNORED_BY_WATCHDOG,
    File,
    Options,
    Replaced,
    Scaled,
    contents,
    digest,
    given_back,
    replaced,
    scaled,
    settled,
    still_there,
    taken,
    undone,
)

HERE = Path("/projects/mine")
GARDENER = Options(HERE, project="web", target="blue", seed="seed-1")
PLAIN = Options(HERE, target="target.yaml", control=Path("/kube/control"), namespace="garden")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(replace(GARDENER, target=""), "-t: the shoot", id="no shoot"),
        pytest.param(replace(GARDENER, seed=""), "-d: the seed", id="no seed"),
        pytest.param(
            replace(GARDENER, control=Path("/c")), "name the control cluster twice", id="seed and -c"
        ),
        pytest.param(replace(GARDENER, target="B_lue"), "'B_lue' is not a name", id="no name of Kubernetes"),
        pytest.param(replace(PLAIN, control=None), "-c: the kubeconfig of the control", id="no control"),
        pytest.param(replace(PLAIN, namespace=""), "-n: the namespace of the manager", id="no namespace"),
        pytest.param(
            replace(PLAIN, seed="s"), "for Gardener; name its project too", id="a seed without Gardener"
        ),
        pytest.param(replace(PLAIN, folder="../up"), "a folder inside the project", id="a folder outside"),
        pytest.param(replace(PLAIN, folder="/tmp"), "a folder inside the project", id="an absolute folder"),
        pytest.param(replace(PLAIN, here=Path("/my work")), "cannot have a path with spaces", id="a space"),
        pytest.param(replace(PLAIN, other=Path("/gone")), "-m /gone: there is no such folder", id="no -m"),
        pytest.param(replace(PLAIN, machine_class="a\nB=1"), "no spaces or quotes", id="a line in a class"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Options, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        settled(options, {})


def test_gardener_keeps_the_machines_of_a_shoot_in_a_namespace_of_its_name() -> None:
    assert settled(GARDENER, {}).namespace == "shoot--web--blue"
    assert settled(replace(GARDENER, namespace="other"), {}).namespace == "other"


def test_a_second_project_is_found_beside_or_named() -> None:
    beside = HERE.parent / "machine-controller-manager-provider-aws"
    options = replace(PLAIN, provider="aws")
    assert settled(options, {beside: True}).projects == (HERE, beside)
    assert settled(options, {}).projects == (HERE,)
    assert str(beside) in settled(options, {}).skipped
    found = contents(settled(options, {beside: True}), options, b"c", b"t")
    assert found[beside / "dev" / "kube-configs" / "kubeconfig_target.yaml"] == b"t"
    assert (
        f"CONTROL_KUBECONFIG={beside}/dev/kube-configs/kubeconfig_control.yaml"
        in found[beside / ".env"].decode()
    )


def deployment(replicas: int = 1, mark: str | None = None, uid: str = "u") -> Deployment:
    annotations = {IGNORED_BY_WATCHDOG: mark} if mark is not None else {}
    return Deployment(
        metadata=ObjectMeta(uid=uid, annotations=annotations), spec=DeploymentSpec(replicas=replicas)
    )


OURS = {"metadata": {"annotations": {IGNORED_BY_WATCHDOG: "true"}}, "spec": {"replicas": 0}}


@pytest.mark.parametrize(
    ("recorded", "now", "expected", "patch"),
    [
        pytest.param(None, deployment(2), Scaled(uid="u", replicas=2), OURS, id="for the first time"),
        pytest.param(
            Scaled(uid="u", replicas=2), deployment(0, "true"), Scaled(uid="u", replicas=2), {}, id="again"
        ),
        pytest.param(
            Scaled(uid="u", replicas=2),
            deployment(3),
            Scaled(uid="u", replicas=3),
            OURS,
            id="killed before the write, and scaled by another hand meanwhile",
        ),
        pytest.param(
            Scaled(uid="u", replicas=2, mark="no"),
            deployment(1, "true"),
            Scaled(uid="u", replicas=1, mark="no"),
            {"spec": {"replicas": 0}},
            id="scaled up by another hand",
        ),
        pytest.param(
            Scaled(uid="u", replicas=2),
            deployment(0, "true", "other"),
            Scaled(uid="other", replicas=0, mark="true"),
            {},
            id="another Deployment of that name is found as it is",
        ),
    ],
)
def test_setup_records_what_it_did_not_make_itself(
    recorded: Scaled | None, now: Deployment, expected: Scaled, patch: dict[str, object]
) -> None:
    assert (scaled(recorded, now), taken(now)) == (expected, patch)


@pytest.mark.parametrize(
    ("found", "now", "patch", "stays"),
    [
        pytest.param(
            Scaled(uid="u", replicas=2),
            deployment(0, "true"),
            {"metadata": {"annotations": {IGNORED_BY_WATCHDOG: None}}, "spec": {"replicas": 2}},
            0,
            id="ours goes",
        ),
        pytest.param(Scaled(uid="u", replicas=2), deployment(2), {}, 0, id="never written, or undone"),
        pytest.param(
            Scaled(uid="u", replicas=0, mark="true"), deployment(0, "true"), {}, 0, id="found so, left so"
        ),
        pytest.param(
            Scaled(uid="u", replicas=0),
            deployment(0, "true"),
            {"metadata": {"annotations": {IGNORED_BY_WATCHDOG: None}}},
            0,
            id="found scaled to zero: only the annotation was ours",
        ),
        pytest.param(
            Scaled(uid="u", replicas=2), deployment(3, "later"), {}, 2, id="another hand's values stay"
        ),
        pytest.param(Scaled(uid="u", replicas=2), deployment(0, "true", "v"), {}, 1, id="another Deployment"),
    ],
)
def test_restore_undoes_what_is_still_ours(
    found: Scaled, now: Deployment, patch: dict[str, object], stays: int
) -> None:
    got, told = given_back(found, now)
    assert (got, len(told)) == (patch, stays)


FILE = Path("/projects/mine/.env")


def entry(before: bytes | None, *ours: bytes) -> Replaced:
    return Replaced(path=str(FILE), before=before, ours=tuple(map(digest, ours)))


@pytest.mark.parametrize(
    ("recorded", "now", "expected"),
    [
        pytest.param(None, None, entry(None, b"new"), id="nothing was there"),
        pytest.param(None, b"old", entry(b"old", b"new"), id="another content was there"),
        pytest.param(None, b"new", None, id="what is wanted was there: it is not ours"),
        pytest.param(entry(None, b"new"), None, entry(None, b"new"), id="killed before it was written"),
        pytest.param(entry(None, b"gone", b"1"), b"1", entry(None, b"1", b"new"), id="a new kubeconfig"),
        pytest.param(entry(None, b"1"), b"edited", entry(None, b"1"), id="edited since: it stays"),
    ],
)
def test_a_file_is_known_by_what_we_wrote(
    recorded: Replaced | None, now: bytes | None, expected: Replaced | None
) -> None:
    assert replaced(recorded, FILE, File(now), b"new") == expected


@pytest.mark.parametrize(
    ("record", "now", "expected"),
    [
        pytest.param(entry(None, b"1"), b"1", f"removed {FILE}", id="ours goes"),
        pytest.param(
            entry(b"0", b"1"), b"1", "put back the .env that was in /projects/mine", id="theirs returns"
        ),
        pytest.param(entry(b"0", b"1"), b"0", "None", id="never written"),
        pytest.param(entry(b"0", b"1"), b"2", f"left {FILE}: it was changed since setup", id="edited"),
        pytest.param(
            entry(b"0", b"1"),
            None,
            f"left {FILE}: it was there before setup, and has been removed since",
            id="removed by another hand",
        ),
    ],
)
def test_restore_says_of_each_file_what_it_did(record: Replaced, now: bytes | None, expected: str) -> None:
    assert str(undone(record, now)) == expected


def test_a_dry_run_of_restore_says_what_it_would_do() -> None:
    steps = [
        undone(entry(None, b"1"), b"1"),
        undone(entry(b"0", b"1"), b"1"),
        undone(entry(b"0", b"1"), b"2"),
    ]
    assert [each.would for each in steps if each is not None] == [
        f"would remove {FILE}",
        "would put back the .env that was in /projects/mine",
        f"would leave {FILE}: it was changed since setup",
    ]


def pod(name: str, node: str, phase: str = "Running") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="garden"),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        pytest.param(
            [pod("m-1", "n1")],
            "1 pod of the manager is still there after 120 s: m-1, on 1 node: n1",
            id="one",
        ),
        pytest.param(
            [pod(f"m-{number}", f"n{number % 4}") for number in (5, 4, 3, 2, 1)],
            "5 pods of the manager are still there after 120 s: m-1, m-2, m-3 and 2 more, on 4 nodes: n0, n1, "
            "n2 and 1 more",
            id="more than three of each",
        ),
        pytest.param(
            [pod("m-1", ""), pod("m-2", "n1", "Failed")],
            "1 pod of the manager is still there after 120 s: m-1, on no node",
            id="one that no node has, and one that has ended",
        ),
        pytest.param(
            [],
            "2 pods of the manager are still there after 120 s",
            id="pods that may not be read are counted",
        ),
    ],
)
def test_pods_that_do_not_end_are_named_with_their_nodes(pods: list[Pod], said: str) -> None:
    assert still_there(pods, counted=2, seconds=120.0) == f"{said}; run setup again to wait on"


SHOOT = command.shoot((Path("/g"), ""), "web", "blue")
SECRET = "c2VjcmV0LWtleQ=="


def kubeconfig(user: dict[str, object]) -> str:
    text = {
        "clusters": [{"name": "c", "cluster": {"server": "https://c.example"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    return base64.b64encode(json.dumps(text).encode()).decode()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="no status"),
        pytest.param({"status": {"kubeconfig": ""}}, id="empty"),
        pytest.param({"status": {"kubeconfig": 7}}, id="a number"),
        pytest.param({"status": {"kubeconfig": f"%{SECRET}"}}, id="not base64"),
        pytest.param({"status": {"kubeconfig": SECRET}}, id="no kubeconfig"),
        pytest.param(
            {"status": {"kubeconfig": kubeconfig({"exec": {"command": "rm", "args": [SECRET]}})}},
            id="a program",
        ),
        pytest.param({"status": {"kubeconfig": kubeconfig({"tokenFile": f"/{SECRET}"})}}, id="a file"),
    ],
)
def test_an_answer_that_is_not_to_be_believed_is_refused_without_a_word_of_it(answer: object) -> None:
    with pytest.raises(
        InvalidInput, match="the kubeconfig that the garden gave for garden-web/blue"
    ) as error:
        command.issued(json.dumps(answer).encode(), SHOOT)
    assert SECRET not in str(error.value)
    assert "secret-key" not in str(error.value)


def test_a_landscape_is_a_garden_of_gardenctls_configuration() -> None:
    config = b"gardens:\n- {identity: sap-landscape-dev, kubeconfig: /k/dev, context: admin}\n- {identity: live, kubeconfig: /k/live}\n"
    assert command.garden_of("dev", config, "f") == (Path("/k/dev"), "admin")
    assert command.garden_of("live", config, "f") == (Path("/k/live"), "")
    with pytest.raises(InvalidInput, match="f has no garden 'canary'; there are: live, sap-landscape-dev"):
        command.garden_of("canary", config, "f")
    with pytest.raises(InvalidInput, match="there are: none"):
        command.garden_of("dev", b"gardens: 7\n", "f")
