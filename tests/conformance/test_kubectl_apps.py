"""``kubectl rollout`` and related commands, as users type them, on our controllers and on real ones."""

import json
from collections.abc import Iterator

import pytest

from kubewright.testing.hollow import nodes_behind
from kubewright.testing.kubectl import Kubectl

pytestmark = pytest.mark.kubectl

ROLLED_OUT = 'deployment "web" successfully rolled out'


@pytest.fixture
def web(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A Deployment ``web`` of two Pods, rolled out, on two hollow nodes."""
    with nodes_behind(kubectl.kubeconfig):
        kubectl("create", "deployment", "web", "--image=app:1", "--replicas=2")
        assert ROLLED_OUT in status(kubectl)
        yield kubectl
        # Or the session's server would make Pods anew, and say so, when the nodes of the old ones are gone.
        kubectl("delete", "deployments", "--all", "--cascade=foreground")


def status(kubectl: Kubectl) -> str:
    return kubectl("rollout", "status", "deployment/web", "--timeout=30s")


def counted(kubectl: Kubectl) -> None:
    """Wait until each ReplicaSet of ``web`` reports the Pods that it is to have: it may do so after its
    Deployment, which counts Pods itself."""
    line = "{range .items[*]}{.metadata.name}={.spec.replicas} {end}"
    for each in kubectl("get", "replicasets", "-l", "app=web", "-o", f"jsonpath={line}").split():
        name, _, size = each.partition("=")
        told = f"--for=jsonpath={{.status.replicas}}={size}"
        kubectl("wait", told, f"replicaset/{name}", "--timeout=30s")


def image(kubectl: Kubectl) -> str:
    return kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")


def test_create_deployment_runs_pods_and_says_nothing_else(web: Kubectl) -> None:
    done = web.run("create", "deployment", "more", "--image=app:1")
    assert (done.returncode, done.stderr) == (0, "")
    web("wait", "--for=condition=Available", "deployment/more", "--timeout=30s")
    (line,) = web("get", "deployment", "web", "--no-headers").splitlines()
    assert line.split()[:4] == ["web", "2/2", "2", "2"]
    (line,) = web("get", "replicasets", "-l", "app=web", "--no-headers").splitlines()
    assert line.split()[1:4] == ["2", "2", "2"]
    pods = [line.split() for line in web("get", "pods", "-l", "app=web", "--no-headers").splitlines()]
    assert [pod[1:3] for pod in pods] == [["1/1", "Running"]] * 2


def test_a_rollout_is_watched_described_and_undone(web: Kubectl) -> None:
    web("annotate", "deployment/web", "kubernetes.io/change-cause=the first")
    web("set", "image", "deployment/web", "*=app:2")
    web("annotate", "deployment/web", "kubernetes.io/change-cause=the second", "--overwrite")
    assert ROLLED_OUT in status(web)
    history = [
        line.split(maxsplit=1) for line in web("rollout", "history", "deployment/web").splitlines() if line
    ]
    assert [line for line in history if line[0].isdigit()] == [["1", "the first"], ["2", "the second"]]
    assert "app:1" in web("rollout", "history", "deployment/web", "--revision=1")

    assert "rolled back" in web("rollout", "undo", "deployment/web")
    assert ROLLED_OUT in status(web)
    assert image(web) == "app:1"
    history = web("rollout", "history", "deployment/web").splitlines()
    assert [line.split()[0] for line in history if line[:1].isdigit()] == ["2", "3"]

    web("rollout", "undo", "deployment/web", "--to-revision=2")
    assert ROLLED_OUT in status(web)
    assert image(web) == "app:2"
    assert "unable to find specified revision 9" in web.refused(
        "rollout", "undo", "deployment/web", "--to-revision=9"
    )


def test_a_rollout_is_paused_and_resumed(web: Kubectl) -> None:
    web("rollout", "pause", "deployment/web")
    web("set", "image", "deployment/web", "*=app:2")
    assert len(web("get", "replicasets", "--no-headers").splitlines()) == 1
    web("rollout", "resume", "deployment/web")
    assert ROLLED_OUT in status(web)
    images = web(
        "get",
        "pods",
        "--field-selector=status.phase=Running",
        "-o",
        "jsonpath={.items[*].spec.containers[0].image}",
    )
    assert "app:2" in images


def test_a_restart_replaces_all_pods(web: Kubectl) -> None:
    before = set(web("get", "pods", "-o", "name").split())
    web("rollout", "restart", "deployment/web")
    assert ROLLED_OUT in status(web)
    web("wait", "--for=delete", *sorted(before), "--timeout=30s")
    assert len(set(web("get", "pods", "-o", "name").split()) - before) == 2


def test_scale_waits_and_changes_the_number(web: Kubectl) -> None:
    web("scale", "deployment/web", "--replicas=4", "--current-replicas=2")
    web("wait", "--for=jsonpath={.status.availableReplicas}=4", "deployment/web", "--timeout=30s")
    assert len(web("get", "pods", "-o", "name").split()) == 4


def test_describe_shows_sets_conditions_and_events(web: Kubectl) -> None:
    web("set", "image", "deployment/web", "*=app:2")
    assert ROLLED_OUT in status(web)
    counted(web)
    told = web("describe", "deployment/web")
    assert "2 desired | 2 updated | 2 total | 2 available | 0 unavailable" in told
    assert "OldReplicaSets:" in told
    assert "(0/0 replicas created)" in told
    assert "(2/2 replicas created)" in told
    assert "NewReplicaSetAvailable" in told
    assert "MinimumReplicasAvailable" in told
    assert "ScalingReplicaSet" in told


def test_a_rollout_that_is_stuck_ends_the_wait(web: Kubectl) -> None:
    stuck = {"progressDeadlineSeconds": 2, "template": {"spec": {"nodeSelector": {"nowhere": "x"}}}}
    web("patch", "deployment/web", "-p", json.dumps({"spec": stuck}))
    assert 'deployment "web" exceeded its progress deadline' in web.refused(
        "rollout", "status", "deployment/web", "--timeout=30s"
    )
    web("rollout", "undo", "deployment/web")
    assert ROLLED_OUT in status(web)


def test_orphans_are_left_and_adopted(web: Kubectl) -> None:
    before = set(web("get", "pods", "-o", "name").split())
    web("delete", "deployment", "web", "--cascade=orphan")
    web("create", "deployment", "web", "--image=app:1", "--replicas=2")
    assert ROLLED_OUT in status(web)
    assert set(web("get", "pods", "-o", "name").split()) == before


def test_deletion_leaves_nothing(web: Kubectl) -> None:
    web("delete", "deployment", "web", "--cascade=foreground")
    web("wait", "--for=delete", "pods", "--all", "--timeout=30s")
    assert web("get", "replicasets,pods", "-o", "name") == ""
