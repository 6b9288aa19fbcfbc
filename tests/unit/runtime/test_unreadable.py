"""What is said of objects that cannot be read: the condition, its place in a status, and the count."""

import pytest

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.core import SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET
from kubewright.runtime.unreadable import conditions_field, status_after

NOW = "2030-01-01T00:00:00Z"
OURS = {
    "type": "Readable",
    "status": "False",
    "reason": "Unreadable",
    "message": "cannot read it",
    "lastTransitionTime": NOW,
}
OTHER = {"type": "Ready", "status": "True", "more": [1]}


@pytest.mark.parametrize(
    ("status", "problem", "patch"),
    [
        pytest.param({}, "cannot read it", {"conditions": [OURS]}, id="the first condition"),
        pytest.param({"conditions": [OTHER]}, "cannot read it", {"conditions": [OTHER, OURS]}, id="one more"),
        pytest.param({"conditions": [OURS, OTHER]}, "cannot read it", None, id="it says so already"),
        pytest.param(
            {"conditions": [{**OURS, "message": "something else"}]},
            "cannot read it",
            {"conditions": [OURS]},
            id="another problem",
        ),
        pytest.param({"conditions": [OTHER, OURS]}, "", {"conditions": [OTHER]}, id="it can be read again"),
        pytest.param({"conditions": [OTHER]}, "", None, id="it could always be read"),
        pytest.param({"conditions": "none"}, "cannot read it", None, id="conditions that are no list"),
        pytest.param({"conditions": [1]}, "cannot read it", None, id="conditions that are none"),
        pytest.param("well", "cannot read it", None, id="a status that is no object"),
    ],
)
def test_the_status_after(status, problem, patch) -> None:
    assert status_after({"status": status}, "conditions", problem, NOW) == patch


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (MACHINE, "conditions"),
        (MACHINE_SET, "machineSetCondition"),
        (CLUSTER, "conditions"),
        (DEPLOYMENT, "conditions"),
        (SECRET, ""),
        (dynamic(CLUSTER.resource), ""),
    ],
    ids=["Machine", "MachineSet", "Cluster", "Deployment", "a kind without status", "a kind without a type"],
)
def test_where_the_conditions_of_a_kind_are(kind, field) -> None:
    assert conditions_field(kind) == field
