"""PriorityClasses, and the priority that admission gives a Pod: the same requests to both servers, the same answers."""

import itertools
from typing import Any

import pytest
from tests.conformance.pairs import Pair, Step, comparable, unlike

from kubewright.testing.api import Api, Object

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

PC = "priorityclasses.scheduling.k8s.io"
PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
SYSTEM = ("system-cluster-critical", "system-node-critical")
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_numbers = itertools.count(1)


def new(name: str, value: int | str | None = 1, **members: Any) -> Step:
    given = {} if value is None else {"value": value}
    return Step("POST", PC, "", {"metadata": {"name": name}, **given, **members}, about=name, wide=True)


def patch(name: str, body: Object) -> Step:
    return Step("PATCH", PC, name, body, content_type=MERGE, wide=True)


def pod(name: str, **spec: Any) -> Step:
    spec = {"containers": [{"name": "c", "image": "i:1"}], **spec}
    return Step("POST", "pods", "", {"metadata": {"name": name}, "spec": spec}, about=name)


def seen(name: str) -> Step:
    return Step("GET", PC, name, wide=True)


def gone(name: str) -> Step:
    return Step("DELETE", PC, name, wide=True)


CLASSES = [
    [seen(each) for each in SYSTEM],
    [new("plain"), seen("plain"), new("plain")],
    [
        new("zero", None),
        new("negative", -2_147_483_648),
        new("never", preemptionPolicy="Never", description="d"),
    ],
    [new("most", 1_000_000_000), new("above", 1_000_000_001), new("no-number", "1"), new("huge", 2**31)],
    [new("Upper"), new("sometimes", preemptionPolicy="Sometimes"), new("", 1)],
    [new("system-mine"), new("system-node-critical", 2_000_001_000), new("system-node-critical", 5)],
    [
        new("system-cluster-critical", 2_000_000_000, globalDefault=True),
        patch("system-cluster-critical", {"globalDefault": True}),
        patch("system-cluster-critical", {"globalDefault": False}),
        patch("system-cluster-critical", {"value": 7}),
    ],
    [new("fixed", 5), patch("fixed", {"value": 6}), patch("fixed", {"preemptionPolicy": "Never"})],
    [new("told", 5), patch("told", {"description": "more"}), patch("told", {"preemptionPolicy": None})],
    [
        new("put", 5),
        Step("PUT", PC, "put", {"metadata": {"name": "put"}, "description": "value left out"}, wide=True),
    ],
    [
        new("one", 5, globalDefault=True),
        new("two", 6, globalDefault=True),
        patch("one", {"description": "x"}),
    ],
    [new("one", 5, globalDefault=True), new("two", 6), patch("two", {"globalDefault": True})],
    [gone("system-node-critical"), new("system-node-critical", 2_000_001_000)],
]


PODS = [
    [pod("none"), pod("zero", priority=0), pod("wrong", priority=5), pod("policy", preemptionPolicy="Never")],
    [pod("same-policy", preemptionPolicy="PreemptLowerPriority"), pod("unknown", priorityClassName="nope")],
    [
        new("high", 10),
        pod("high", priorityClassName="high"),
        pod("agrees", priorityClassName="high", priority=10),
        pod("disagrees", priorityClassName="high", priority=11),
        pod("never", priorityClassName="high", preemptionPolicy="Never"),
        pod("bad", priorityClassName="high", preemptionPolicy="Sometimes"),
        pod("both", priorityClassName="high", priority=1, preemptionPolicy="Never"),
    ],
    [
        new("kind", 10, preemptionPolicy="Never"),
        pod("kind", priorityClassName="kind"),
        pod("unkind", priorityClassName="kind", preemptionPolicy="PreemptLowerPriority"),
    ],
    [
        new("usual", 7, globalDefault=True, preemptionPolicy="Never"),
        pod("usual"),
        pod("zero", priority=0),
        pod("critical", priorityClassName="system-node-critical"),
    ],
    [
        new("high", 10),
        pod("p", priorityClassName="high"),
        Step("PATCH", "pods", "p", {"spec": {"priority": None}}, content_type=MERGE),
        Step("PATCH", "pods", "p", {"spec": {"preemptionPolicy": None}}, content_type=MERGE),
        Step("PATCH", "pods", "p", {"spec": {"priority": 11}}, content_type=MERGE),
        Step("PATCH", "pods", "p", {"spec": {"priorityClassName": None}}, content_type=MERGE),
        gone("high"),
        pod("late", priorityClassName="high"),
        Step("PATCH", "pods", "p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE),
    ],
]


async def ready(pair: Pair) -> None:
    """Both have the classes of the system and no others, and a new namespace."""
    name = f"priorities-{next(_numbers)}"
    for api in pair.both:
        api.namespace = name
        (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
        for each in (await api.get(PATH)).ok()["items"]:
            if each["metadata"]["name"] not in SYSTEM:
                (await api.delete(f"{PATH}/{each['metadata']['name']}")).ok()
        await _settled(api)


async def _settled(api: Api) -> None:
    """A real server's admission reads a cache: it knows no default class once a Pod of none has priority 0."""

    async def none() -> bool:
        probe = {
            "metadata": {"generateName": "probe-"},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        }
        made = (await api.post(api.at("pods"), probe, dryRun="All")).ok()
        return made["spec"]["priority"] == 0 and not made["spec"].get("priorityClassName")

    await api.eventually(none, "no class is the default")


async def _known(api: Api, name: str) -> None:
    """Wait until admission knows a class that was made."""

    async def known() -> bool:
        spec = {"containers": [{"name": "c", "image": "i:1"}], "priorityClassName": name}
        probe = {"metadata": {"generateName": "probe-"}, "spec": spec}
        return (await api.post(api.at("pods"), probe, dryRun="All")).code == 201

    await api.eventually(known, f"class {name} is known")


@pytest.mark.parametrize("steps", CLASSES + PODS, ids=lambda steps: str(steps[0].body or steps[0].name)[:40])
async def test_both_servers_answer_the_same(pair: Pair, steps: list[Step]) -> None:
    await ready(pair)
    told = []
    for step in steps:
        embedded, real = await pair.tell(step)
        told += [
            f"{step}: {line}" for line in unlike(*(comparable(a, step.method) for a in (embedded, real)))
        ]
        if step.method == "POST" and PC.startswith(step.plural) and real.code == embedded.code == 201:
            for api in pair.both:
                await _known(api, step.body["metadata"]["name"])
    assert told == []


async def test_both_print_the_same_columns(pair: Pair) -> None:
    await ready(pair)
    await pair.tell(new("shown", 5, preemptionPolicy="Never"))
    tables = []
    for api in pair.both:
        table = (await api.get(PATH, accept=TABLE)).ok()
        columns = [(c["name"], c["type"], c["format"], c["priority"]) for c in table["columnDefinitions"]]
        age = [name for name, *_ in columns].index("Age")
        rows = sorted([cell for n, cell in enumerate(row["cells"]) if n != age] for row in table["rows"])
        tables.append((columns, rows))
    assert tables[0] == tables[1]
