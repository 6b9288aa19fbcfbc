"""Scenes of a MachineHealthCheck: the machines of its cluster, their Nodes, and what the look must say of them."""

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_HEALTH_CHECK, MachineHealthCheck
from kubewright.api.cluster.v1beta1 import ObjectReference as Ref
from kubewright.api.cluster.validate import default_health_check
from kubewright.clusters.external.object import look_up
from kubewright.clusters.healthcheck.look import Looker
from kubewright.clusters.healthcheck.seen import NodeState, Seen
from kubewright.clusters.node import CLUSTER_NODE
from kubewright.kube.informer import Informers
from kubewright.runtime.sessions.session import NotConnected, Session
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.wire.gvk import Key

from .of_cluster_machines import FOO, LABELS, NS, Providers, machine

KEY, AT = Key(NS, "h"), BEGIN.timestamp()
MADE, READY = "2030-01-01T00:00:00Z", "2030-01-01T00:00:10Z"
TEMPLATE = Ref(api_version=FOO.resource.api_version, kind="FooTemplate", name="t", namespace=NS)
THERE = Providers({"FooTemplate": {"spec": {}}, "Foo": {"spec": {}}})
TEMPLATE_PLAIN = {"apiVersion": TEMPLATE.api_version, "kind": TEMPLATE.kind, "name": TEMPLATE.name}


def check(*, matches: dict[str, str] = LABELS, **spec: Any) -> MachineHealthCheck:
    given = {"clusterName": "c", "selector": {"matchLabels": matches} if matches else {}, **spec}
    return MACHINE_HEALTH_CHECK.from_plain(
        {"metadata": {"name": "h", "namespace": NS, "uid": "h"}, "spec": given}
    )


def cluster(*conditions: str) -> tuple[Any, Any]:
    told = [{"type": each, "status": "True", "lastTransitionTime": READY} for each in conditions]
    meta = {"name": "c", "namespace": NS, "uid": "c"}
    return CLUSTER, CLUSTER.from_plain({"metadata": meta, "status": {"conditions": told}})


def made(name: str = "m", *, node: str = "", **meta: Any) -> tuple[Any, Any]:
    return MACHINE, machine(name, node=node, meta={"creationTimestamp": MADE, **meta})


def node(status: str, since: str = MADE) -> tuple[Any, Any]:
    told = [{"type": "Ready", "status": status, "lastTransitionTime": since}]
    plain = {"metadata": {"name": "node", "uid": "node"}, "status": {"conditions": told}}
    return CLUSTER_NODE, CLUSTER_NODE.from_plain(plain)


class Checks(Shelf):
    """Both clusters on one shelf, and the looker; the workload cluster may be away."""

    def __init__(self, providers: Providers) -> None:
        super().__init__()
        self.away = False
        self.nodes = Informers(self.client)
        self.nodes.get(CLUSTER_NODE)
        steady = self.client.steady()
        self.looker = Looker(self.caches, providers, self, steady)

    def get(self, cluster: Key) -> Session:
        if self.away:
            raise NotConnected(f"{cluster} is away")
        return Session(self.client, self.nodes, cluster)


def scene(
    of: MachineHealthCheck,
    *there: tuple[Any, Any],
    providers: Providers = THERE,
    before: Callable[[Checks], object] = lambda _checks: None,
    then: tuple[tuple[Any, Any], ...] = (),
    at: float = 60,
) -> Callable[[], Awaitable[Seen]]:
    """A look at what is ``there``; with ``then``, a second one when that has come."""

    async def look() -> Seen:
        checks = Checks(providers)
        for kind, each in there:
            await checks.put(kind, each)
        before(checks)
        checks.looker.look(of)
        checks.clock.passed = at
        if then:
            checks.away = False
            for kind, each in then:
                await checks.put(kind, each)
        return checks.looker.look(of)

    return look


def _away(checks: Checks) -> None:
    checks.away = True


def _stepped(checks: Checks) -> None:
    checks.looker.look(check())
    checks.clock.ahead = 3600


class Only:
    """Equals a tuple of one target that shows these values."""

    def __init__(self, **shows: Any) -> None:
        self.shows = shows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple) or len(other) != 1:
            return False
        return all(getattr(other[0], name) == value for name, value in self.shows.items())

    def __hash__(self) -> int:
        return hash(tuple(self.shows))

    def __repr__(self) -> str:
        return f"one target with {self.shows}"


REQUEST = Ref(api_version=TEMPLATE.api_version, kind="Foo", name="m")
SKIPPED = {"annotations": {names.SKIP_REMEDIATION_ANNOTATION: ""}}
PAUSED = {"annotations": {names.PAUSED_ANNOTATION: ""}}
NO_CONDITIONS = "spec.unhealthyConditions: Forbidden: must have at least one entry"
UNREADY = {"type": "Ready", "status": "False", "timeout": "5m"}
LOOK = Look(
    "clusters.healthcheck.look",
    Seen,
    (
        Scene(
            "nothing is there",
            scene(check(), at=0),
            {"check": default_health_check(check()), "cluster": None, "now": AT, "wall": BEGIN, "targets": ()}
            | {"template": None, "problem": NO_CONDITIONS},
        ),
        Scene(
            "the check breaks no rule",
            scene(check(unhealthyConditions=[UNREADY])),
            {"problem": ""},
        ),
        Scene(
            "a machine without a Node, that could join since its cluster was ready for it",
            scene(
                check(remediationTemplate=TEMPLATE_PLAIN, nodeStartupTimeout="5m"),
                cluster("ControlPlaneInitialized"),
                made(),
            ),
            {
                "check.spec.node_startup_timeout": "5m",
                "check": default_health_check(
                    check(remediationTemplate=TEMPLATE_PLAIN, nodeStartupTimeout="5m")
                ),
                "cluster": Named("c"),
                "now": AT + 60,
                "template": look_up(THERE, KEY, TEMPLATE),
                "targets": Only(
                    machine=Named("m"),
                    node=None,
                    reachable=True,
                    since=AT + 10,
                    request=look_up(THERE, KEY, REQUEST),
                ),
            },
        ),
        Scene(
            "a machine with a Node, dated by its condition",
            scene(check(), made(node="node"), node("True")),
            {"targets": Only(node=NodeState({"Ready": ("True", AT)}), since=AT, request=None)},
        ),
        Scene(
            "its Node changes before our eyes, under an older date",
            scene(check(), made(node="node"), node("True"), then=(node("False", "2029-12-31T00:00:00Z"),)),
            {"targets": Only(node=NodeState({"Ready": ("False", AT + 60)}))},
        ),
        Scene(
            "its cluster is away",
            scene(check(), made(node="node"), node("True"), before=_away),
            {"targets": Only(node=None, reachable=False)},
        ),
        Scene(
            "its cluster is back: silence counts from then",
            scene(check(), made(node="gone"), before=_away, then=(node("True"),)),
            {"targets": Only(reachable=True, since=AT + 60)},
        ),
        Scene(
            "of its cluster it watches what it selects, and nothing that is paused or skipped",
            scene(check(), made("a", **SKIPPED), made("b", **PAUSED), made("m")),
            {"targets": Only(machine=Named("m"))},
        ),
        Scene("an empty selector selects none", scene(check(matches={}), made()), {"targets": ()}),
        Scene(
            "the wall clock was set",
            scene(check(), before=_stepped),
            {"now": AT + 60, "wall.hour": 1},
        ),
    ),
)
