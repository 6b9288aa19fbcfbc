"""Tables: ages, JSON paths, columns and the cells that people read most."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubewright.apiserver.http import answers
from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.builtin.cells import pod_ready, pod_restarts, pod_status, since
from kubewright.apiserver.registry.custom import follow, parse
from kubewright.apiserver.registry.kind import ServedKind
from kubewright.apiserver.schema.node import Object
from kubewright.base.durations import human
from kubewright.base.errors import InvalidInput

NOW = datetime(2030, 1, 2, tzinfo=UTC)
DAY, HOUR, MINUTE = 86400, 3600, 60

AGES = [
    (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (192, "3m12s"),
    (9 * MINUTE + 59, "9m59s"),
    (10 * MINUTE + 5, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"), (3 * HOUR + 5 * MINUTE, "3h5m"),
    (8 * HOUR + 59 * MINUTE, "8h"), (47 * HOUR, "47h"), (48 * HOUR, "2d"), (2 * DAY + 5 * HOUR, "2d5h"),
    (8 * DAY - 1, "7d23h"), (8 * DAY + HOUR, "8d"), (729 * DAY, "729d"), (730 * DAY, "2y"),
    (735 * DAY, "2y5d"),
    (8 * 365 * DAY + DAY, "8y"),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "words"), AGES)
def test_ages_lose_their_finer_unit_as_they_grow(seconds: int, words: str) -> None:
    assert human(timedelta(seconds=seconds)) == words


def test_an_age_of_nothing_is_unknown_and_of_nonsense_invalid() -> None:
    assert (since(None, NOW), since("soon", NOW), since("2030-01-01T23:59:00Z", NOW)) == (
        "<unknown>",
        "<invalid>",
        "60s",
    )


TREE = {
    "a": {"b.c": 1, "d": [{"t": "x", "n": 1}, {"t": "y", "n": 2}, {"t": "z"}]},
    "l": [1, 2, 3],
    "e": {"n": 9},
}
PATHS: list[tuple[str, list[Any]]] = [
    (".a.d[0].n", [1]),
    (".a['b.c']", [1]),
    (r".a.b\.c", [1]),
    (".l[-1]", [3]),
    (".l[0:2]", [1, 2]),
    (".l[*]", [1, 2, 3]),
    (".e.*", [9]),
    ("..n", [1, 2, 9]),
    ('.a.d[?(@.t=="y")].n', [2]),
    (".a.d[?(@.n>1)].t", ["y"]),
    (".a.d[?(@.n)].t", ["x", "y"]),
    (".a.missing.x", []),
    (".l[7]", []),
    (".l.name", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert list(follow(parse(path), TREE)) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(", "a..b[", ".a[?(@.x==y)]"])
def test_unreadable_json_paths_are_quoted(path: str) -> None:
    with pytest.raises(InvalidInput, match="is not a JSON path"):
        parse(path)


def kind(group: str, plural: str) -> ServedKind:
    found = builtin_catalog().find(group, "v1", plural)
    assert found is not None
    return found


def row(shown: ServedKind, obj: Object) -> dict[str, Any]:
    """Column name to cell."""
    table = answers.render(shown, [obj], now=NOW)
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


NODE: Object = {
    "metadata": {
        "name": "n1",
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"},
    },
    "spec": {"unschedulable": True},
    "status": {
        "conditions": [{"type": "Ready", "status": "False"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "kernelVersion": "6.1", "architecture": "arm64"},
    },
}


def test_a_node_shows_readiness_roles_and_addresses() -> None:
    assert row(kind("", "nodes"), NODE) == {
        "Name": "n1",
        "Status": "NotReady,SchedulingDisabled",
        "Roles": "edge,worker",
        "Age": "24h",
        "Version": "v1.36.3",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "<unknown>",
        "Kernel-Version": "6.1 (arm64)",
        "Container-Runtime": "<unknown>",
    }


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "c", "state": state, **more}


def pod(*containers: Any, init: Any = (), phase: str = "Running", **status: Any) -> Object:
    made = {
        "phase": phase,
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
        **status,
    }
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"} for _ in init]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": made}


RUNNING = container({"running": {}}, ready=True)
DONE = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
READY = [{"type": "Ready", "status": "True"}]
STATUSES: list[tuple[str, Object, str]] = [
    ("the phase, when nothing else is known", pod(phase="Pending"), "Pending"),
    ("the pod's own reason", pod(phase="Failed", reason="Evicted"), "Evicted"),
    (
        "what a container waits for",
        pod(container({"waiting": {"reason": "CrashLoopBackOff"}})),
        "CrashLoopBackOff",
    ),
    ("an exit code without a reason", pod(container({"terminated": {"exitCode": 3}})), "ExitCode:3"),
    ("a signal without a reason", pod(container({"terminated": {"exitCode": 3, "signal": 9}})), "Signal:9"),
    ("running", pod(RUNNING), "Running"),
    ("done while another runs and the pod is ready", pod(DONE, RUNNING, conditions=READY), "Running"),
    ("done while another runs and the pod is not ready", pod(DONE, RUNNING), "NotReady"),
    ("an init container that runs", pod(init=[container({"running": {}})], phase="Pending"), "Init:0/1"),
    (
        "an init container that failed",
        pod(init=[container({"terminated": {"exitCode": 1, "reason": "Error"}})], phase="Pending"),
        "Init:Error",
    ),
    ("gated", pod(conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]), "SchedulingGated"),
    ("deleted", {**pod(RUNNING), "metadata": {"deletionTimestamp": "x"}}, "Terminating"),
    ("deleted on a lost node", {**pod(reason="NodeLost"), "metadata": {"deletionTimestamp": "x"}}, "Unknown"),
    (
        "deleted after its end",
        {**pod(DONE, phase="Succeeded"), "metadata": {"deletionTimestamp": "x"}},
        "Completed",
    ),
]


@pytest.mark.parametrize(("given", "word"), [c[1:] for c in STATUSES], ids=[c[0] for c in STATUSES])
def test_pod_status(given: Object, word: str) -> None:
    assert pod_status(given, NOW) == word


def test_restarts_tell_when_the_last_one_was() -> None:
    ended = {"terminated": {"finishedAt": "2030-01-01T23:00:00Z"}}
    restarted = pod(container({"running": {}}, restartCount=2, lastState=ended))
    assert pod_restarts(restarted, NOW) == "2 (60m ago)"


def test_sidecars_count_among_the_containers() -> None:
    given = pod(RUNNING, init=[container({"running": {}}, started=True, ready=True)])
    given["spec"]["initContainers"] = [{"name": "c", "restartPolicy": "Always"}]
    assert pod_ready(given, NOW) == "2/2"


@pytest.mark.parametrize("shown", list(builtin_catalog()), ids=lambda shown: str(shown.resource))
def test_an_empty_object_prints(shown: ServedKind) -> None:
    table = answers.render(shown, [{"metadata": {"name": "x"}}], now=NOW)
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])


def test_both_shapes_of_an_event_print_alike() -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": " m\n",
        "count": 3,
        "lastTimestamp": "2030-01-01T23:59:00Z",
        "source": {"component": "c", "host": "h"},
    }
    new = kind("events.k8s.io", "events")
    shown = row(kind("", "events"), core)
    assert shown == row(new, new.from_stored(core))
    assert (shown["Last Seen"], shown["Object"], shown["Message"], shown["Count"]) == ("60s", "pod/p", "m", 3)
    assert shown["Source"] == "c, h"


CRD: Object = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                    {"name": "Text", "type": "string", "jsonPath": ".spec.what"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    {"name": "Broken", "type": "string", "jsonPath": ".spec[?("},
                ],
            }
        ],
    },
}


def test_custom_columns_print_what_fits_their_type() -> None:
    (widget,) = custom.kinds(CRD)
    meta = {"name": "w", "creationTimestamp": "2030-01-01T23:00:00Z"}
    shown = row(widget, {"metadata": meta, "spec": {"size": "no number", "what": {"a": [1]}}})
    assert shown == {"Name": "w", "Size": None, "Text": '{"a":[1]}', "Age": "60m", "Broken": None}


def test_a_custom_kind_without_columns_shows_its_age() -> None:
    (widget,) = custom.kinds(CRD)
    bare = custom.kinds({**CRD, "spec": {**CRD["spec"], "versions": [{"name": "v1", "served": True}]}})[0]
    assert widget.columns
    assert [column.name for column in answers.columns_of(bare)] == ["Name", "Age"]


def test_rows_carry_what_was_asked_for() -> None:
    nodes, listed = kind("", "nodes"), {"resourceVersion": "7", "continue": "x"}
    default = answers.render(nodes, [NODE], now=NOW, list_meta=listed)
    assert default["metadata"] == listed
    assert default["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert default["rows"][0]["object"]["metadata"] is NODE["metadata"]
    assert answers.render(nodes, [NODE], now=NOW, include="Object")["rows"][0]["object"] is NODE
    assert answers.render(nodes, [NODE], now=NOW, include="None")["rows"][0]["object"] is None
    assert answers.render(nodes, [NODE], now=NOW, headers=False)["columnDefinitions"] is None


def test_pods_that_are_over_are_marked() -> None:
    over = {**pod(DONE, phase="Succeeded"), "kind": "Pod"}
    assert (
        answers.render(kind("", "pods"), [over], now=NOW)["rows"][0]["conditions"][0]["reason"] == "Succeeded"
    )


def test_a_long_path_that_cannot_be_read_is_refused_at_once() -> None:
    """The ways to divide its blanks or backslashes are more than can be tried."""
    for text in ("[" + " " * 3_000, "[:" + " : " * 1_000, "[?(@" + "\\" * 201 + "!"):
        with pytest.raises(InvalidInput, match="is not a JSON path"):
            parse(text)
