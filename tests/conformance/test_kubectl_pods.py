"""What kubectl asks of a pod's kubelet, on a server whose pods have no containers: one clear answer each.

These run on the embedded server only: the real Kubernetes has no kubelets at all.
"""

import json

import pytest

from kubewright.testing.kubectl import Kubectl

pytestmark = [pytest.mark.kubectl, pytest.mark.parametrize("new_kubectl", ["embedded"], indirect=True)]

NOTHING_RUNS = "no containers run behind"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}
RUNNING = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "c",
                "image": "i",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
    }
}


@pytest.fixture
def pod(kubectl: Kubectl) -> Kubectl:
    """A pod ``p`` that says it runs, on a node of its own that has no kubelet."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": kubectl.namespace}}
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    spec = {**POD["spec"], "nodeName": kubectl.namespace}
    kubectl("create", "-f", "-", stdin=json.dumps({**POD, "spec": spec}))
    kubectl("patch", "pod", "p", "--subresource=status", "--type=strategic", "-p", json.dumps(RUNNING))
    return kubectl


@pytest.mark.parametrize("words", [("logs", "p"), ("logs", "p", "-f"), ("logs", "p", "--all-containers")])
def test_a_log_says_why_there_is_none(pod: Kubectl, words: tuple[str, ...]) -> None:
    (line,) = pod(*words).splitlines()
    assert line.startswith("kubewright: ")
    assert NOTHING_RUNS in line


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("exec", "p", "--", "ls"), id="exec"),
        pytest.param(("attach", "p", "-q"), id="attach"),
        pytest.param(("port-forward", "pod/p", "0:80"), id="port-forward"),
        pytest.param(("cp", "p:/etc/hostname", "/dev/null"), id="cp"),
        pytest.param(("debug", "p", "--image=i", "-q"), id="debug"),
    ],
)
def test_what_needs_a_container_is_refused_in_one_sentence(pod: Kubectl, words: tuple[str, ...]) -> None:
    said = pod.refused(*words).splitlines()
    assert NOTHING_RUNS in said[-1]
    assert not any(line.startswith(("panic:", "goroutine")) for line in said)


def test_top_says_that_there_are_no_metrics(pod: Kubectl) -> None:
    name = f"{pod.namespace}/p"
    said = f'Error from server (NotFound): podmetrics.metrics.k8s.io "{name}" not found\n'
    assert pod.refused("top", "pod", "p") == said
    assert pod.refused("top", "pods") == "error: metrics not available yet\n"


@pytest.mark.parametrize("words", [("logs", "zz"), ("exec", "zz", "--", "ls"), ("debug", "zz", "--image=i")])
def test_a_pod_that_is_not_there_is_not_found(kubectl: Kubectl, words: tuple[str, ...]) -> None:
    assert 'pods "zz" not found' in kubectl.refused(*words)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("job", "j", "--image=i"), id="a Job"),
        pytest.param(("cronjob", "j", "--image=i", "--schedule=* * * * *"), id="a CronJob"),
    ],
)
def test_a_workload_that_nothing_will_run_is_taken_with_a_warning(
    kubectl: Kubectl, words: tuple[str, ...]
) -> None:
    done = kubectl.run("create", *words)
    assert (done.returncode, "created" in done.stdout) == (0, True)
    assert done.stderr.startswith("Warning: this server stores ")
    assert "no Pods will come of this one" in done.stderr
