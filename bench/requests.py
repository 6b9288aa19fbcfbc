"""Requests by client, verb and resource: read from an audit log or from the server's metrics. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
_VERBS = {"post": "create", "put": "update"}
OURS = "kubewright"
"""The first word of our user agent. What follows it is the Lease that a controller works under."""

AUDIT_POLICY = json.dumps(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Metadata"}],
    }
)
_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<value>[0-9.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Ask:
    """One sort of request. ``resource`` includes the subresource: ``machines/status``."""

    client: str
    verb: str
    resource: str


Asked = Counter[Ask]


def from_audit(lines: Iterable[str]) -> Asked:
    """Count the completed requests of an audit log; a last line that is half written is left out.

    Ours are counted by Lease too: the client of a controller is ``kubewright/LEASE``.
    """
    found: Asked = Counter()
    for line in lines:
        if not line.endswith("\n"):
            break
        event = json.loads(line)
        place = event.get("objectRef") or {}
        resource = "/".join(part for part in (place.get("resource"), place.get("subresource")) if part)
        found[Ask(_client(event.get("userAgent", "")), event["verb"], resource)] += 1
    return found


def from_metrics(text: str) -> Asked:
    """Count by the server's ``apiserver_request_total``."""
    found: Asked = Counter()
    for line in text.splitlines():
        if sample := _SAMPLE.match(line):
            labels: Mapping[str, str] = dict(_LABEL.findall(sample["labels"]))
            resource = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
            verb = labels["verb"].lower()
            ask = Ask(_client(labels.get("client", "")), _VERBS.get(verb, verb), resource)
            found[ask] += int(float(sample["value"]))
    return found


NOT_CONTROLLERS = frozenset((
    ("create", "nodes"), ("patch", "nodes/status"), ("get", "nodes"),
    ("create", "leases"), ("patch", "leases"), ("get", "leases"), ("delete", "leases"),
))  # fmt: skip
"""What simulated kubelets, and the garbage collector of their Leases, ask for. In ``up`` they share our
client; no machine controller asks any of it while all nodes are well."""


def ours(asked: Asked, *, without_kubelets: bool) -> Asked:
    """What the controllers asked for; a watch is no request that repeats, and is left out."""
    mine: Asked = Counter()
    for ask, count in asked.items():
        if ask.client.partition("/")[0] == OURS and ask.verb != "watch":
            mine[Ask(OURS, ask.verb, ask.resource)] += count
    left_out = NOT_CONTROLLERS if without_kubelets else frozenset()
    return Counter({ask: count for ask, count in mine.items() if (ask.verb, ask.resource) not in left_out})


EVENTS, LEASES = "events", "leases"
"""Events are counted apart: no work waits for them."""


def by(asked: Asked, *clients: str) -> Asked:
    """What these clients asked for."""
    return Counter({ask: count for ask, count in asked.items() if ask.client in clients})


def without_leases(asked: Asked) -> Asked:
    """All requests but those about Leases: they depend on time, not on work."""
    return Counter({ask: count for ask, count in asked.items() if ask.resource != LEASES})


def writes(asked: Asked) -> int:
    return sum(count for ask, count in asked.items() if ask.verb in WRITES and ask.resource != EVENTS)


def total(asked: Asked) -> int:
    return sum(count for ask, count in asked.items() if ask.resource != EVENTS)


def events(asked: Asked) -> int:
    return sum(count for ask, count in asked.items() if ask.resource == EVENTS)


def _client(user_agent: str) -> str:
    name, _, rest = user_agent.partition("/")
    return user_agent if name == OURS and rest else name.strip()
