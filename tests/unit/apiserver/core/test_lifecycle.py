"""Deletion: removal, marks, grace periods and finalizers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.apiserver.registry import strategy
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import ServedKind
from kubewright.apiserver.registry.strategy import DeleteOptions, Mark, Remove
from kubewright.apiserver.schema.node import Object
from kubewright.base.clock import rfc3339

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CATALOG = builtin_catalog()


def kind(plural: str) -> ServedKind:
    found = CATALOG.find("", "v1", plural)
    assert found is not None
    return found


THING, POD, NAMESPACE = kind("configmaps"), kind("pods"), kind("namespaces")


def obj(spec: Object | None = None, **metadata: Any) -> Object:
    return {"metadata": {"name": "a", **metadata}, **({"spec": spec} if spec else {})}


BOUND = {"nodeName": "n", "terminationGracePeriodSeconds": 20}
HELD = {"finalizers": ["x.y/z"]}
ENDING = {"deletionTimestamp": rfc3339(NOW), "deletionGracePeriodSeconds": 0}
GRACEFUL = {"deletionTimestamp": rfc3339(NOW + timedelta(seconds=20)), "deletionGracePeriodSeconds": 20}


@pytest.mark.parametrize(
    ("of", "before", "deletion", "after"),
    [
        pytest.param(THING, obj(), DeleteOptions(), None, id="no finalizer"),
        pytest.param(THING, obj(**HELD), DeleteOptions(), (0, ["x.y/z"]), id="a finalizer"),
        pytest.param(
            THING,
            obj(),
            DeleteOptions(propagation="Foreground"),
            (0, ["foregroundDeletion"]),
            id="Foreground waits for the dependents",
        ),
        pytest.param(
            THING,
            obj(),
            DeleteOptions(propagation="Orphan"),
            (0, ["orphan"]),
            id="Orphan waits for the garbage collector",
        ),
        pytest.param(
            THING,
            obj(finalizers=["orphan"]),
            DeleteOptions(propagation="Background"),
            None,
            id="Background removes both finalizers",
        ),
        pytest.param(
            THING,
            obj(finalizers=["orphan"]),
            DeleteOptions(propagation="Foreground"),
            (0, ["foregroundDeletion"]),
            id="the later policy counts",
        ),
        pytest.param(
            THING, obj(finalizers=["orphan"]), DeleteOptions(), (0, ["orphan"]), id="no policy keeps them"
        ),
        pytest.param(
            THING,
            obj(**HELD, **ENDING),
            DeleteOptions(propagation="Orphan"),
            (0, ["x.y/z", "orphan"]),
            id="a policy may come later",
        ),
        pytest.param(
            THING,
            obj(finalizers=["foregroundDeletion"], **ENDING),
            DeleteOptions(propagation="Background"),
            None,
            id="nothing holds it once its dependents may follow later",
        ),
        pytest.param(THING, obj(**ENDING), DeleteOptions(), None, id="marked, and without a finalizer"),
        pytest.param(POD, obj({}), DeleteOptions(grace=30), None, id="a pod without a node"),
        pytest.param(POD, obj(BOUND), DeleteOptions(), (20, []), id="a pod has its own grace"),
        pytest.param(POD, obj(BOUND), DeleteOptions(grace=5), (5, []), id="the delete's own grace period"),
        pytest.param(POD, obj(BOUND), DeleteOptions(grace=-1), (1, []), id="negative grace is a second"),
        pytest.param(POD, obj(BOUND), DeleteOptions(grace=0), None, id="no grace period"),
        pytest.param(
            POD,
            obj(BOUND, **HELD),
            DeleteOptions(grace=0),
            (0, ["x.y/z"]),
            id="a finalizer keeps it past its grace period",
        ),
        pytest.param(
            POD, obj(BOUND, **GRACEFUL), DeleteOptions(), (20, []), id="deleted again, nothing changes"
        ),
        pytest.param(POD, obj(BOUND, **GRACEFUL), DeleteOptions(grace=40), (20, []), id="grace never grows"),
        pytest.param(POD, obj(BOUND, **GRACEFUL), DeleteOptions(grace=5), (5, []), id="grace may shrink"),
        pytest.param(POD, obj(BOUND, **GRACEFUL), DeleteOptions(grace=0), None, id="the kubelet is done"),
        pytest.param(
            NAMESPACE,
            obj({"finalizers": ["kubernetes"]}),
            DeleteOptions(),
            (0, []),
            id="a namespace has to be emptied",
        ),
        pytest.param(NAMESPACE, obj({}), DeleteOptions(), None, id="a namespace that is empty"),
    ],
)
def test_a_deletion(
    of: ServedKind, before: Object, deletion: DeleteOptions, after: tuple[int, list[str]] | None
) -> None:
    outcome = strategy.delete(of, before, deletion, NOW)
    if after is None:
        assert outcome == Remove()
        return
    assert isinstance(outcome, Mark)
    metadata = outcome.obj["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata.get("finalizers", [])) == after
    assert metadata["deletionTimestamp"] == rfc3339(NOW + timedelta(seconds=after[0]))


def test_a_deletion_mark_increases_the_generation() -> None:
    outcome = strategy.delete(POD, obj(BOUND, generation=3), DeleteOptions(), NOW)
    assert isinstance(outcome, Mark)
    assert outcome.obj["metadata"]["generation"] == 4


def test_a_namespace_that_is_deleted_has_the_phase_terminating() -> None:
    outcome = strategy.delete(NAMESPACE, obj({"finalizers": ["kubernetes"]}), DeleteOptions(), NOW)
    assert isinstance(outcome, Mark)
    assert outcome.obj["status"] == {"phase": "Terminating"}


@pytest.mark.parametrize(
    ("of", "before", "finished"),
    [
        (THING, obj(), False),
        (THING, obj(**ENDING), True),
        (THING, obj(**ENDING, **HELD), False),
        (POD, obj(BOUND, **GRACEFUL), False),
        (NAMESPACE, obj({"finalizers": ["kubernetes"]}, **ENDING), False),
        (NAMESPACE, obj({"finalizers": []}, **ENDING), True),
    ],
    ids=["alive", "marked", "held", "in its grace", "not emptied", "emptied"],
)
def test_an_object_is_finished(of: ServedKind, before: Object, finished: bool) -> None:
    assert strategy.finished(of, before) is finished
