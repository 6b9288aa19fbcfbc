"""How objects end: removed, marked, hurried, held."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.apiserver.registry import lifecycle
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.apiserver.registry.lifecycle import Mark, Remove, Wish
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
    ("of", "before", "wish", "after"),
    [
        pytest.param(THING, obj(), Wish(), None, id="nothing holds it"),
        pytest.param(THING, obj(**HELD), Wish(), (0, ["x.y/z"]), id="a finalizer holds it"),
        pytest.param(
            THING,
            obj(),
            Wish(propagation="Foreground"),
            (0, ["foregroundDeletion"]),
            id="it waits for its dependents",
        ),
        pytest.param(
            THING, obj(), Wish(propagation="Orphan"), (0, ["orphan"]), id="it waits until they are orphans"
        ),
        pytest.param(
            THING,
            obj(finalizers=["orphan"]),
            Wish(propagation="Background"),
            None,
            id="background takes both waits away",
        ),
        pytest.param(
            THING,
            obj(finalizers=["orphan"]),
            Wish(propagation="Foreground"),
            (0, ["foregroundDeletion"]),
            id="the later policy counts",
        ),
        pytest.param(THING, obj(finalizers=["orphan"]), Wish(), (0, ["orphan"]), id="no policy leaves them"),
        pytest.param(
            THING,
            obj(**HELD, **ENDING),
            Wish(propagation="Orphan"),
            (0, ["x.y/z"]),
            id="too late for a policy",
        ),
        pytest.param(THING, obj(**ENDING), Wish(), None, id="marked, and nothing holds it"),
        pytest.param(POD, obj({}), Wish(grace=30), None, id="no kubelet has the pod"),
        pytest.param(POD, obj(BOUND), Wish(), (20, []), id="a pod has its own grace"),
        pytest.param(POD, obj(BOUND), Wish(grace=5), (5, []), id="a deletion brings its grace"),
        pytest.param(POD, obj(BOUND), Wish(grace=-1), (1, []), id="negative grace is a second"),
        pytest.param(POD, obj(BOUND), Wish(grace=0), None, id="no grace wanted"),
        pytest.param(
            POD, obj(BOUND, **HELD), Wish(grace=0), (0, ["x.y/z"]), id="a finalizer holds it past its grace"
        ),
        pytest.param(POD, obj(BOUND, **GRACEFUL), Wish(), (20, []), id="deleted again, nothing changes"),
        pytest.param(POD, obj(BOUND, **GRACEFUL), Wish(grace=40), (20, []), id="grace never grows"),
        pytest.param(POD, obj(BOUND, **GRACEFUL), Wish(grace=5), (5, []), id="grace may shrink"),
        pytest.param(POD, obj(BOUND, **GRACEFUL), Wish(grace=0), None, id="the kubelet is done"),
        pytest.param(
            NAMESPACE,
            obj({"finalizers": ["kubernetes"]}),
            Wish(),
            (0, []),
            id="a namespace has to be emptied",
        ),
        pytest.param(NAMESPACE, obj({}), Wish(), None, id="a namespace that is empty"),
    ],
)
def test_a_deletion(of: ServedKind, before: Object, wish: Wish, after: tuple[int, list[str]] | None) -> None:
    outcome = lifecycle.delete(of, before, wish, NOW)
    if after is None:
        assert outcome == Remove()
        return
    assert isinstance(outcome, Mark)
    metadata = outcome.obj["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata.get("finalizers", [])) == after
    assert metadata["deletionTimestamp"] == rfc3339(NOW + timedelta(seconds=after[0]))


def test_a_mark_counts_as_a_change_of_what_is_wanted() -> None:
    outcome = lifecycle.delete(POD, obj(BOUND, generation=3), Wish(), NOW)
    assert isinstance(outcome, Mark)
    assert outcome.obj["metadata"]["generation"] == 4


def test_a_namespace_says_that_it_is_ending() -> None:
    outcome = lifecycle.delete(NAMESPACE, obj({"finalizers": ["kubernetes"]}), Wish(), NOW)
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
    assert lifecycle.finished(of, before) is finished
