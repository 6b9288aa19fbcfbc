"""Passes over a CapacityReserve: what enqueues it, and what is written in which order."""

from typing import Any

from tests.unit.looks.planes import There
from tests.unit.looks.reserves import (
    CLASS_NAME,
    DEPLOYMENT_NAME,
    NAME,
    NS,
    a_class,
    a_node,
    a_reserve,
    placed,
    staged,
)

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, PLACE, PRIORITY_CLASS
from kubewright.api.core import NODE
from kubewright.base import delays
from kubewright.reserves import placeholders
from kubewright.reserves.decide import WAITING
from kubewright.reserves.sizing import WINDOW
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, Wired, changed, gone, put
from kubewright.wire.errors import Forbidden
from kubewright.wire.gvk import Key

KEY = f"{NS}/{NAME}"
PATH = CAPACITY_RESERVE.resource.path(NS, NAME)
DEPLOYMENTS, CLASSES = DEPLOYMENT.resource.path(PLACE), PRIORITY_CLASS.resource.path("")
SINCE = "2030-01-01T00:00:00Z"


RESERVE = a_reserve()[1]
DEPLOYMENT_PATH, CLASS_PATH = f"{DEPLOYMENTS}/{DEPLOYMENT_NAME}", f"{CLASSES}/{CLASS_NAME}"
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
DEPLOYS = {"apiVersion": "apps/v1", "kind": "Deployment"}
CREATED = (
    Write("POST", CLASSES, {**CLASS, **placeholders.priority_class(RESERVE)}),
    Write("POST", DEPLOYMENTS, {**DEPLOYS, **placeholders.deployment(RESERVE, 2, "pause")}),
)
PLENTY = "2 placeholders hold room; the pool has 1 nodes"
ONE_WAITS, LATER = f"1 of 2 placeholders do not run: {WAITING}", "2030-01-01T00:00:01Z"
TAKEN = (
    f"Deployment {PLACE}/{DEPLOYMENT_NAME} belongs to another reserve; delete it, or name this one otherwise"
)
WRONG = "spec: Required value: one of replicas, percent, total or machines must say how much is kept free"
NOTHING = {"replicas": 0, "readyReplicas": 0, "pendingReplicas": 0, "nodes": 0, "free": {"cpu": "0"}}


def condition(
    message: str, reason: str = "Reserved", *, kind: str = "Ready", at: str = SINCE
) -> dict[str, Any]:
    true = kind == "Stalled" or reason == "Reserved"
    said = {"type": kind, "status": "True" if true else "False", "reason": reason, "message": message}
    return {**said, "lastTransitionTime": at}


STATUS = {
    "replicas": 2,
    "readyReplicas": 2,
    "pendingReplicas": 0,
    "nodes": 1,
    "free": {"cpu": "2"},
    "conditions": [condition(PLENTY)],
}
QUIET = (a_reserve(status=STATUS), a_node("a"), placed(), a_class())
"""A reserve that is not written: which changes enqueue it."""
QUIETLY = "2 placeholders: 50 % of cpu of 1 nodes"


def stalled(reason: str, message: str) -> list[dict[str, Any]]:
    return [condition(message, reason, kind=kind) for kind in ("Ready", "Stalled")]


def deleted(path: str, uid: str) -> Write:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
    return Write("DELETE", path, options)


def of(version: str) -> dict[str, str]:
    return {"uid": "u", "resourceVersion": version}


def patched(path: str, uid: str, version: str, **body: Any) -> Write:
    return Write("PATCH", path, {"metadata": {"uid": uid, "resourceVersion": version}, **body})


def status(version: str, **said: Any) -> Write:
    return patched(f"{PATH}/status", "u", version, status=said)


NO_RIGHT = "The API server refused a write: no right"


def refusing(path: str, *there: There) -> Stage:
    """A stage on which each request about one object is forbidden."""

    async def wired() -> Wired:
        found = await staged(*there)()
        found.shelf.answers[path] = Forbidden("no right")
        return found

    return wired


SCENES = (
    Scene(
        "nothing is there yet: first the finalizer, then the class, then the placeholders, then the status",
        staged(a_reserve(finalizers=[]), a_node("a")),
        writes=(
            Write(
                "PATCH", PATH, {"metadata": {"finalizers": list(RESERVE.metadata.finalizers), **of("101")}}
            ),
            *CREATED,
            status(
                "103",
                **NOTHING | {"replicas": 2, "pendingReplicas": 2, "nodes": 1},
                conditions=[condition(f"2 of 2 placeholders do not run: {WAITING}", "PlaceholdersPending")],
            ),
        ),
        events=((NAME, "Resized", "2 placeholders", False),),
        because={KEY: QUIETLY},
    ),
    Scene(
        "all is as it should be: nothing is written",
        staged(*QUIET),
        wakes={KEY: f"CapacityReserve {KEY} added"},
        because={KEY: QUIETLY},
    ),
    Scene(
        "its labels change",
        staged(*QUIET),
        changed(CAPACITY_RESERVE, Key(NS, NAME), metadata={"labels": {"a": "b"}}),
        {KEY: f"CapacityReserve {KEY} changed"},
    ),
    Scene(
        "its status changes",
        staged(*QUIET),
        changed(CAPACITY_RESERVE, Key(NS, NAME), status={"nodes": 7}),
        {},
    ),
    Scene(
        "it is gone",
        staged(*QUIET),
        gone(CAPACITY_RESERVE, Key(NS, NAME)),
        {},
        because={KEY: "it had no pass"},
    ),
    Scene(
        "a node comes: there are more placeholders at once",
        staged(*QUIET),
        put(*a_node("b", "2")),
        writes=(
            patched(DEPLOYMENT_PATH, "d", "103", spec={"replicas": 3}),
            status(
                "101",
                replicas=3,
                pendingReplicas=1,
                nodes=2,
                conditions=[
                    condition(f"1 of 3 placeholders do not run: {WAITING}", "PlaceholdersPending", at=LATER)
                ],
            ),
        ),
        events=((NAME, "Resized", "2 placeholders become 3", False),),
    ),
    Scene(
        "a node is cordoned: there are fewer placeholders in five minutes",
        staged(*QUIET),
        changed(NODE, Key("", "a"), spec={"unschedulable": True}),
        {KEY: "Node a changed"},
        writes=(
            status(
                "101",
                nodes=0,
                lowerTo=0,
                lowerSince=LATER,
                conditions=[condition("2 placeholders hold room; the pool has 0 nodes")],
            ),
        ),
        due={KEY: WINDOW},
    ),
    Scene(
        "a node beats its heart",
        staged(*QUIET),
        changed(NODE, Key("", "a"), metadata={"annotations": {"x": "y"}}),
        {},
    ),
    Scene(
        "a workload takes the room of a placeholder: that is told, and no failure",
        staged(*QUIET),
        changed(DEPLOYMENT, Key(PLACE, DEPLOYMENT_NAME), status={"readyReplicas": 1}),
        {KEY: f"Deployment {PLACE}/{DEPLOYMENT_NAME} changed"},
        writes=(
            status(
                "101",
                readyReplicas=1,
                pendingReplicas=1,
                free={"cpu": "1"},
                conditions=[condition(ONE_WAITS, "PlaceholdersPending", at=LATER)],
            ),
        ),
        events=((NAME, "PlaceholdersPending", ONE_WAITS, False),),
    ),
    Scene(
        "a user scales the placeholders: it is undone",
        staged(*QUIET),
        changed(DEPLOYMENT, Key(PLACE, DEPLOYMENT_NAME), spec={"replicas": 9}),
        writes=(patched(DEPLOYMENT_PATH, "d", "105", spec={"replicas": 2}),),
    ),
    Scene(
        "a Deployment of another changes",
        staged(*QUIET),
        put(DEPLOYMENT, DEPLOYMENT.from_plain({"metadata": {"name": "o", "namespace": PLACE}})),
        {},
    ),
    Scene(
        "its PriorityClass is deleted: it is made again",
        staged(*QUIET),
        gone(PRIORITY_CLASS, Key("", CLASS_NAME)),
        writes=CREATED[:1],
    ),
    Scene(
        "another PriorityClass comes",
        staged(*QUIET),
        put(PRIORITY_CLASS, PRIORITY_CLASS.from_plain({"metadata": {"name": "o"}, "value": 1})),
        {},
    ),
    Scene(
        "it is being deleted: all of it goes, and the finalizer last",
        staged(a_reserve(deletionTimestamp=SINCE), placed(), a_class()),
        writes=(
            deleted(DEPLOYMENT_PATH, "d"),
            deleted(CLASS_PATH, "c"),
            Write("PATCH", PATH, {"metadata": {"finalizers": None, **of("101")}}),
        ),
    ),
    Scene(
        "it is being deleted, and the server refuses that for its placeholders: that is told",
        refusing(DEPLOYMENT_PATH, a_reserve(deletionTimestamp=SINCE, status=STATUS), placed(), a_class()),
        writes=(
            deleted(DEPLOYMENT_PATH, "d"),
            status("101", nodes=0, conditions=stalled("Refused", NO_RIGHT)),
        ),
        events=((NAME, "Refused", NO_RIGHT, True),),
        due={KEY: delays.REFUSED},
    ),
    Scene(
        "a name is taken: nothing is written but the status",
        staged(a_reserve(), placed(uid="x")),
        writes=(status("101", **NOTHING, conditions=stalled("NameTaken", TAKEN)),),
        events=((NAME, "NameTaken", TAKEN, True),),
    ),
    Scene(
        "it breaks a rule: nothing is written but the status",
        staged(a_reserve({"unit": {"cpu": "1"}})),
        writes=(status("101", **NOTHING, conditions=stalled("InvalidSpec", WRONG)),),
        events=((NAME, "InvalidSpec", WRONG, True),),
    ),
)
