"""Scenes of a component of a control plane: caches, hosts, keeper and etcd, and what the look must say of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import API_VERSION
from kubewright.api.meta import owner_of
from kubewright.controlplanes import members
from kubewright.controlplanes.component.look import CertificateRequest, ComponentSetup, Looker
from kubewright.controlplanes.component.policies import API_SERVER, CONTROLLER_MANAGER, ETCD, Policy
from kubewright.controlplanes.component.seen import Certificates, Seen
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.family import ComponentObject, Pause
from kubewright.controlplanes.hosting.contract import (
    Hosts,
    Instance,
    Running,
    WorkloadAddresses,
    WorkloadIdentity,
    why_absent,
    why_elsewhere,
)
from kubewright.controlplanes.templates.catalog import Catalog, Entry
from kubewright.controlplanes.templates.choice import Choice, NoChoice, Version, Versions
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import (
    Host,
    Planes,
    Reserving,
    There,
    a_cluster,
    a_component,
    a_config_map,
    a_plane,
    a_secret,
    component,
)

NS, MINUTE = planes.NS, timedelta(minutes=1)
STORE, SERVER, MANAGER = Component


def template(*volumes: dict[str, Any], arg: str = "") -> tuple[dict[str, Any], ...]:
    container = {"name": "program", "image": "program:${version}", "args": [arg] if arg else []}
    pod = {"spec": {"containers": [container], "volumes": list(volumes)}}
    return ({"kind": "StatefulSet", "metadata": {"name": "${cluster}"}, "spec": {"template": pod}},)


VOLUMES = (
    {"name": "keys", "secret": {"secretName": "c-ca", "items": [{"key": "tls.crt", "path": "ca.crt"}]}},
    {"name": "files", "configMap": {"name": "audit"}},
    {"name": "more", "secret": {"secretName": "extra", "optional": True}},
)
TEMPLATES = {
    (STORE, "3.6"): template(),
    (SERVER, "1.36"): template(*VOLUMES, arg="--etcd-servers=${etcd_servers}"),
    (SERVER, "embedded"): template(),
    (MANAGER, "1.36"): template(
        {"name": "one", "secret": {"secretName": "alike"}},
        {"name": "other", "configMap": {"name": "alike", "optional": True}},
    ),
}
CATALOG = Catalog(
    {
        "stable": (Entry("", "1.36.3"), Entry("etcd", "3.6.1")),
        "embedded": (Entry("", "embedded"),),
    },
    TEMPLATES,
)
OF_Q = planes.owner(planes.NESTED, "NestedControlPlane", "q")
HEALTHY = Certificates(waiting="c-ca has to be made")


@dataclass
class Keeper:
    """A keeper that knows ``certificates`` of any component. ``asked``: of what it was asked."""

    certificates: Certificates = field(default_factory=Certificates)
    asked: list[CertificateRequest] = field(default_factory=list)

    async def look(self, request: CertificateRequest) -> Certificates:
        self.asked.append(request)
        return self.certificates

    async def perform(self, _seen: Seen) -> None:
        raise AssertionError("nothing is made in a look")


@dataclass
class Etcd:
    """The members of an etcd, which answer with ``says``; a text: why they do not answer."""

    says: tuple[members.Member, ...] | str = "there is none"
    accesses: list[members.Access] = field(default_factory=list)

    @asynccontextmanager
    async def connect(self, access: members.Access) -> AsyncIterator["Etcd"]:
        self.accesses.append(access)
        if isinstance(self.says, str):
            raise NoAnswer(self.says)
        yield self

    async def look(self, wanted: Mapping[str, str]) -> members.Seen:
        assert not isinstance(self.says, str)
        return members.Seen(wanted, self.says, frozenset(each.id for each in self.says))

    async def perform(self, _step: members.Step) -> None:
        raise AssertionError("nothing is changed in a look")


class Components(Planes):
    """The looker of components of one policy, and what it works with."""

    def __init__(
        self, policy: Policy, host: Host | None, embedded: Host | None = None, etcd: Any = None
    ) -> None:
        super().__init__()
        self.keeper, self.etcd, self.host = Keeper(), etcd or Etcd(), host
        setup = ComponentSetup(
            Hosts(embedded, host), CATALOG, "stable", self.keeper, self.etcd.connect, lambda: True
        )
        self.looker = Looker(policy, self.caches, self.in_caches, setup)


def scene(
    of: ComponentObject,
    *there: There,
    policy: Policy = API_SERVER,
    host: Host | None = None,
    embedded: Host | None = None,
    etcd: Etcd | None = None,
    certificates: Certificates | None = None,
    at: tuple[float, ...] = (0,),
) -> Callable[[], Awaitable[Seen]]:
    """Looks at ``of``, one at each of these moments; the last one counts."""

    async def look() -> Seen:
        shelf = Components(policy, host, embedded, etcd)
        await shelf.holds(*there)
        shelf.keeper.certificates = certificates or Certificates()
        for moment in at:
            shelf.clock.passed = moment
            seen = await shelf.looker.look(of)
        return seen

    return look


def identity(which: Component, cluster: str = "c", **more: Any) -> WorkloadIdentity:
    found = component(which, **more)
    kind = {STORE: "NestedEtcd", SERVER: "NestedAPIServer", MANAGER: "NestedControllerManager"}[which]
    return WorkloadIdentity(NS, cluster, which, owner_of(found, API_VERSION, kind))


def instance(which: Component, ordinal: int = 0, **more: Any) -> Instance:
    given = {"fingerprint": "old", "version": "1.36.3", "ready": True, **more}
    return Instance(ordinal, identity(which).instance(ordinal), f"127.0.0.{ordinal + 2}", **given)


def runs(*instances: Instance, **more: Any) -> Running:
    return Running(instances, applied="old", replicas=len(instances), exists=True, **more)


FRONT = component(SERVER)
LABELLED = {"labels": planes.OF_CLUSTER, **planes.FINALIZED}
READY_ETCD = a_component(STORE, {"ready": True, "addresses": [{"ip": "127.0.0.2", "port": 2379}]})
CONTENT = (a_secret("c-ca", **{"tls.crt": "CERT", "tls.key": "KEY"}), a_config_map("audit", policy="none"))
WHOLE = (a_plane(version="1.36.3"), a_cluster(), READY_ETCD, *CONTENT)
KNOWN = WorkloadAddresses(endpoint=("127.0.0.9", 6443), also=("c.example.com",))
SERVES = "https://127.0.0.2:2379"
CREDENTIALS = (
    a_secret("c-etcd", **{"tls.crt": "CA"}),
    a_secret("c-etcd-health-client", **{"tls.crt": "CERT", "tls.key": "KEY"}),
)
THREE = WorkloadAddresses(hosts=tuple(f"127.0.0.{number + 2}" for number in range(7)))
PEERS = {f"c-etcd-{number}": f"https://127.0.0.{number + 2}:2380" for number in range(3)}
FIRST = members.Member(7, "c-etcd-0", PEERS["c-etcd-0"])
ACCESS = members.Access([members.Endpoint(SERVES)], members.Credentials(b"CA", b"CERT", b"KEY"))
NO_CERTIFICATES = "its members could not be asked: the certificates of its clients are not there"
GOES = "2029-12-31T23:59:00Z"


def up_to_date(generation: int, *, status: str = "True") -> dict[str, Any]:
    said = {"type": "UpToDate", "status": status, "lastTransitionTime": GOES}
    return {"conditions": [said], "observedGeneration": generation, "version": "3.6.1"}


def size(
    replicas: int, plan: str = "", *, settled: bool = True, steps: tuple[Any, ...] = ()
) -> dict[str, Any]:
    return {
        "membership.size": replicas,
        "membership.plan": members.Plan(steps, because=plan),
        "membership.settled": settled,
    }


@dataclass(frozen=True)
class Manifests:
    """Equals the rendered manifests whose program has these arguments and this image."""

    args: tuple[str, ...]
    image: str

    def __eq__(self, other: object) -> bool:
        workload = getattr(other, "workload", None)
        if workload is None:
            return False
        program = workload["spec"]["template"]["spec"]["containers"][0]
        return (tuple(program["args"]), program["image"]) == (self.args, self.image)

    def __hash__(self) -> int:
        return hash(self.args)


@dataclass(frozen=True)
class Wanted:
    """Equals a workload of this identity and version, of so many instances, with this content."""

    identity: WorkloadIdentity
    version: str
    replicas: int
    contents: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        names = ("identity", "version", "replicas", "contents", "config", "environment")
        return all(getattr(other, name, None) == getattr(self, name) for name in names)

    def __hash__(self) -> int:
        return hash(self.version)


ARGS = f"--etcd-servers={SERVES}"
RENDERED = Manifests((ARGS,), "program:1.36.3")
FILES = {"contents": {"c-ca": {"tls.crt": b"CERT"}}, "config": {"audit": {"policy": b"none"}}}
MEMBERS = {"INITIAL_CLUSTER": ",".join(f"{name}={peer}" for name, peer in PEERS.items())}
BORN = {**MEMBERS, "INITIAL_CLUSTER_STATE": "new"}
ALONE = {"INITIAL_CLUSTER": f"c-etcd-0={PEERS['c-etcd-0']}", "INITIAL_CLUSTER_STATE": "existing"}
TWO = runs(instance(STORE), instance(STORE, 1), variables={**ALONE, "HOST": "x"})


def etcd_scene(name: str, shows: dict[str, object], *there: There, **how: Any) -> Scene:
    """Of a NestedEtcd of a control plane, whose host gives addresses to members."""
    of = how.pop("of", None) or component(STORE, replicas=3)
    host = Host(how.pop("running", Running()), how.pop("knows", THREE))
    return Scene(name, scene(of, a_plane(), *there, policy=ETCD, host=host, **how), shows)


LOOK = Look(
    "controlplanes.component.look",
    Seen,
    (
        Scene(
            "a component of no control plane",
            scene(component(SERVER, of={"ownerReferences": []}), a_plane(), host=Host()),
            {"policy": API_SERVER, "component": component(SERVER, of={"ownerReferences": []}), "now": BEGIN}
            | {"family": None, "pause": None, "problem": "", "identity": None, "choice": None}
            | {"addresses": WorkloadAddresses(), "certificates": Certificates(), "rendered": None}
            | {"unrendered": "", "missing": (), "to_reserve": None, "workload": None, "unhosted": ""}
            | {"running": Running(), "membership": None, "access": None, "versions": Versions()}
            | {"none_for": timedelta(), "deleting_for": timedelta(), "original": "", "rival": ""},
        ),
        Scene(
            "the same, of which instances run under the name in its label",
            scene(
                component(SERVER, of={**LABELLED, "ownerReferences": []}),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"identity": identity(SERVER), "running": runs(instance(SERVER)), "family": None, "choice": None},
        ),
        Scene(
            "a copy of the component that its control plane names: nothing that runs is its own",
            scene(
                component(SERVER, of={**LABELLED, **planes.PAUSED, "name": "copy"}, replicas=-1),
                a_plane(),
                a_component(SERVER),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "a", "running": Running(), "family": None, "choice": None, "identity": None}
            | {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")}
            | {"problem": "spec.replicas: Invalid value: -1: must not be negative"},
        ),
        Scene(
            "the same, while another program manages the one that is named: what runs is this one's",
            scene(
                component(SERVER, of={**LABELLED, "name": "copy"}),
                a_plane(),
                a_component(SERVER, of=planes.FOREIGN),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "", "running": runs(instance(SERVER)), "family.plane": Named("p")},
        ),
        Scene(
            "the same, where another program has taken over the one that is named, which we have started",
            scene(
                component(SERVER, of={**LABELLED, "name": "copy"}),
                a_plane(),
                a_component(SERVER, of={**LABELLED, **planes.FOREIGN}),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "a", "running": Running(), "identity": None},
        ),
        Scene(
            "the same, while the one that is named was started under another name",
            scene(
                component(SERVER, of={**LABELLED, "name": "copy"}),
                a_plane(),
                a_component(SERVER, of={"labels": {planes.CLUSTER_LABEL: "d"}, **planes.FINALIZED}),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "", "running": runs(instance(SERVER)), "family.plane": Named("p")},
        ),
        Scene(
            "the same, while the one that is named is to be started under another name",
            scene(
                component(SERVER, of={**LABELLED, "name": "copy"}),
                a_plane(of={"ownerReferences": [], "labels": {planes.CLUSTER_LABEL: "d"}}),
                a_component(SERVER),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "", "running": runs(instance(SERVER)), "family.plane": Named("p")},
        ),
        Scene(
            "the same, while no instance of the copy can have been started",
            scene(
                component(SERVER, of={"labels": {planes.CLUSTER_LABEL: "x"}, "name": "copy"}),
                a_plane(),
                a_component(SERVER),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"original": "a", "running": Running(), "identity": None},
        ),
        Scene(
            "a component whose name that of another control plane has: nothing that runs is its own",
            scene(
                component(SERVER),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(SERVER, of={"name": "b", "uid": "b", **OF_Q, **LABELLED}),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": "NestedAPIServer b of NestedControlPlane q", "identity": None, "running": Running()},
        ),
        Scene(
            "the same, after both were started: the older one has it",
            scene(
                component(SERVER, of={**LABELLED, "creationTimestamp": "2029-02-01T00:00:00Z"}),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER,
                    of={
                        "name": "b",
                        "uid": "b",
                        **OF_Q,
                        **LABELLED,
                        "creationTimestamp": "2029-01-01T00:00:00Z",
                    },
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": "NestedAPIServer b of NestedControlPlane q", "identity": None},
        ),
        Scene(
            "the same, where the other one was created later",
            scene(
                component(SERVER, of={**LABELLED, "creationTimestamp": "2029-01-01T00:00:00Z"}),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER,
                    of={
                        "name": "b",
                        "uid": "b",
                        **OF_Q,
                        **LABELLED,
                        "creationTimestamp": "2029-02-01T00:00:00Z",
                    },
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": "", "identity": identity(SERVER)},
        ),
        Scene(
            "the same, before either was started: the older one gets it",
            scene(
                component(SERVER, of={"creationTimestamp": "2029-02-01T00:00:00Z"}),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER, of={"name": "b", "uid": "b", **OF_Q, "creationTimestamp": "2029-01-01T00:00:00Z"}
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": "NestedAPIServer b of NestedControlPlane q"},
        ),
        Scene(
            "the same, where the older one was not started and this one was",
            scene(
                component(SERVER, of={**LABELLED, "creationTimestamp": "2029-02-01T00:00:00Z"}),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER, of={"name": "b", "uid": "b", **OF_Q, "creationTimestamp": "2029-01-01T00:00:00Z"}
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": "", "running": runs(instance(SERVER))},
        ),
        Scene(
            "the same, where the older one runs under another name",
            scene(
                component(SERVER),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER,
                    of={
                        "name": "b",
                        "uid": "b",
                        **OF_Q,
                        "labels": {planes.CLUSTER_LABEL: "d"},
                        **planes.FINALIZED,
                    },
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": ""},
        ),
        Scene(
            "the same, where another program runs the older one",
            scene(
                component(SERVER, of={"creationTimestamp": "2029-02-01T00:00:00Z"}),
                a_plane(),
                a_plane("q", named={"apiserver": {"name": "b"}}),
                a_component(
                    SERVER,
                    of={
                        "name": "b",
                        "uid": "b",
                        **OF_Q,
                        **planes.FOREIGN,
                        "creationTimestamp": "2029-01-01T00:00:00Z",
                    },
                ),
                host=Host(runs(instance(SERVER)), KNOWN),
            ),
            {"rival": ""},
        ),
        Scene(
            "an API server with everything",
            scene(
                FRONT,
                *WHOLE,
                host=Host(runs(instance(SERVER)), KNOWN, "no room"),
                certificates=HEALTHY,
                at=(60,),
            ),
            {"component": FRONT, "now": BEGIN + MINUTE, "family.cluster": Named("c")}
            | {"family.plane": Named("p"), "family.components": {STORE: Named("e")}}
            | {"identity": identity(SERVER), "choice": Choice("1.36.3", TEMPLATES[SERVER, "1.36"])}
            | {"addresses": KNOWN, "certificates": HEALTHY, "rendered": RENDERED, "unrendered": ""}
            | {"missing": (), "to_reserve": None, "unhosted": "no room", "running": runs(instance(SERVER))}
            | {"workload": Wanted(identity(SERVER), "1.36.3", 1, **FILES), "membership": None}
            | {
                "versions": Versions(
                    Version("NestedControlPlane p", "", "1.36.3"),
                    {STORE: Version("NestedEtcd e", "", "", follows=True)},
                )
            },
        ),
        Scene(
            "a controller manager of two, whose etcd names a version",
            scene(
                component(MANAGER, replicas=2),
                a_plane(status={"version": "1.35.0"}),
                a_component(STORE, {"version": "3.6.0"}, version="3.6.1"),
                a_component(SERVER, {"version": "1.35.0"}, channel="stable"),
                a_component(MANAGER, of=planes.FOREIGN),
                a_secret("alike", of="Secret"),
                policy=CONTROLLER_MANAGER,
                host=Host(),
            ),
            {"policy": CONTROLLER_MANAGER, "identity": identity(MANAGER)}
            | {"choice": Choice("1.36.3", TEMPLATES[MANAGER, "1.36"], "stable")}
            | {"rendered": Manifests((), "program:1.36.3")}
            | {"workload": Wanted(identity(MANAGER), "1.36.3", 2, {"alike": {"of": b"Secret"}})}
            | {
                "versions": Versions(
                    Version("NestedControlPlane p", "1.35.0"),
                    {
                        STORE: Version("NestedEtcd e", "3.6.0", "3.6.1"),
                        SERVER: Version("NestedAPIServer a", "1.35.0", "1.36.3"),
                    },
                )
            },
        ),
        Scene(
            "of components that name a version or a channel the version of the control plane is not that",
            scene(
                FRONT,
                a_plane(version="1.36.3"),
                a_component(STORE, version="3.6.1"),
                a_component(SERVER),
                a_component(MANAGER, channel="stable"),
                host=Host(),
            ),
            {
                "versions.components": {
                    STORE: Version("NestedEtcd e", "", "3.6.1"),
                    SERVER: Version("NestedAPIServer a", "", "1.36.3", follows=True),
                    MANAGER: Version("NestedControllerManager m", "", "1.36.3"),
                }
            },
        ),
        Scene(
            "it is paused by its control plane: what runs is not looked up",
            scene(FRONT, a_plane(of=planes.PAUSED), host=Host(runs(instance(SERVER)))),
            {"pause": Pause("NestedControlPlane p has the annotation cluster.x-k8s.io/paused")}
            | {"running": Running(), "choice": None, "identity": identity(SERVER, "p")},
        ),
        Scene(
            "its Cluster is paused",
            scene(FRONT, a_plane(), a_cluster(paused=True), host=Host()),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        Scene(
            "it is paused itself, and of no control plane",
            scene(component(SERVER, of={"ownerReferences": [], **planes.PAUSED}), host=Host()),
            {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
        Scene(
            "its spec breaks a rule: only what runs is looked up",
            scene(component(SERVER, replicas=-1), *WHOLE, host=Host(runs(instance(SERVER)), KNOWN)),
            {"problem": "spec.replicas: Invalid value: -1: must not be negative", "choice": None}
            | {"running": runs(instance(SERVER)), "addresses": WorkloadAddresses()},
        ),
        Scene(
            "another program manages it: only what runs is looked up",
            scene(component(SERVER, of=planes.FOREIGN), *WHOLE, host=Host(runs(instance(SERVER)), KNOWN)),
            {"running": runs(instance(SERVER)), "choice": None},
        ),
        Scene(
            "it is being deleted: only what runs is looked up",
            scene(component(SERVER, of=planes.DELETED), *WHOLE, host=Host(runs(instance(SERVER)), KNOWN)),
            {"running": runs(instance(SERVER)), "choice": None, "family.plane": Named("p")},
        ),
        Scene(
            "no version can be chosen",
            scene(component(SERVER, channel="fast"), *WHOLE, host=Host(runs(instance(SERVER)), KNOWN)),
            {"choice": NoChoice("there is no channel fast; there are: embedded, stable"), "rendered": None}
            | {"addresses": WorkloadAddresses(), "running": runs(instance(SERVER))}
            | {"versions.plane": Version("NestedControlPlane p", "", "1.36.3")},
        ),
        Scene(
            "no host runs its version",
            scene(FRONT, *WHOLE, embedded=Host(knows=KNOWN)),
            {"unhosted": why_absent("1.36.3"), "rendered": None, "addresses": WorkloadAddresses()},
        ),
        Scene(
            "another host runs it than that of its version",
            scene(FRONT, *WHOLE, host=Host(knows=KNOWN), embedded=Host(runs(instance(SERVER)))),
            {"unhosted": why_elsewhere("1.36.3"), "running": runs(instance(SERVER)), "rendered": None},
        ),
        Scene(
            "the host of its version runs it, of two",
            scene(component(SERVER, channel="embedded"), *WHOLE, host=Host(), embedded=Host(runs(), KNOWN)),
            {"unhosted": "", "rendered": Manifests((), "program:embedded"), "addresses": KNOWN},
        ),
        Scene(
            "its host has no address left",
            scene(FRONT, *WHOLE, host=Host(Running(kept=1), "no address is left"), certificates=HEALTHY),
            {"unhosted": "no address is left", "running": Running(kept=1), "certificates": Certificates()},
        ),
        Scene(
            "its templates need what is not known yet",
            scene(FRONT, a_plane(), *CONTENT, host=Host(knows=KNOWN), certificates=HEALTHY),
            {"unrendered": "the template needs a value for etcd_servers, which there is not"}
            | {"rendered": None, "certificates": HEALTHY, "workload": None},
        ),
        Scene(
            "of its volumes an entry and a ConfigMap are missing",
            scene(FRONT, a_plane(), READY_ETCD, a_secret("c-ca", other="x"), host=Reserving(knows=KNOWN)),
            {"missing": ("Secret c-ca has no tls.crt", "ConfigMap audit"), "workload": None}
            | {"to_reserve": Wanted(identity(SERVER), "1.36.3", 1), "rendered": RENDERED},
        ),
        Scene(
            "an optional Secret is there",
            scene(FRONT, *WHOLE, a_secret("extra", more="x"), host=Host(knows=KNOWN)),
            {
                "workload": Wanted(
                    identity(SERVER),
                    "1.36.3",
                    1,
                    {**FILES["contents"], "extra": {"more": b"x"}},
                    FILES["config"],
                )
            },
        ),
        Scene(
            "its host has made its part",
            scene(FRONT, *WHOLE, host=Reserving(knows=KNOWN, made=True)),
            {"to_reserve": None, "workload": Wanted(identity(SERVER), "1.36.3", 1, **FILES)},
        ),
        Scene(
            "for no instance nothing is made",
            scene(component(SERVER, replicas=0), *WHOLE, host=Reserving(knows=KNOWN)),
            {"to_reserve": None, "workload": Wanted(identity(SERVER), "1.36.3", 0, **FILES)},
        ),
        Scene(
            "its host can run one more while it is replaced",
            scene(FRONT, *WHOLE, host=Host(runs(instance(SERVER)), replace(KNOWN, surges=True))),
            {"workload": Wanted(identity(SERVER), "1.36.3", 2, **FILES)},
        ),
        Scene(
            "for a minute its spec has asked for no instance",
            scene(component(SERVER, replicas=0), *WHOLE, host=Host(runs(instance(SERVER))), at=(10, 40, 70)),
            {"none_for": MINUTE},
        ),
        Scene(
            "its spec asks for an instance, and for no time for none",
            scene(FRONT, *WHOLE, host=Host(runs(instance(SERVER))), at=(10, 70)),
            {"none_for": timedelta()},
        ),
        Scene(
            "its spec asks for no instance, and there is none",
            scene(component(SERVER, replicas=0), *WHOLE, host=Host(), at=(10, 70)),
            {"none_for": timedelta()},
        ),
        Scene(
            "it is being deleted",
            scene(component(STORE, of=planes.DELETED), a_plane(), policy=ETCD, host=Host(), at=(10,)),
            {"deleting_for": MINUTE + timedelta(seconds=10)},
        ),
        Scene(
            "it is being deleted, and so is the component that needs it, which began later",
            scene(
                component(STORE, of=planes.DELETED),
                a_plane(),
                a_component(SERVER, of={**planes.FINALIZED, "deletionTimestamp": "2029-12-31T23:59:45Z"}),
                policy=ETCD,
                host=Host(),
                at=(10,),
            ),
            {"deleting_for": timedelta(seconds=25)},
        ),
        Scene(
            "it is being deleted, and the component that needs it was before",
            scene(
                component(STORE, of={**planes.DELETED, "deletionTimestamp": "2029-12-31T23:59:45Z"}),
                a_plane(),
                a_component(SERVER, of=planes.DELETED),
                policy=ETCD,
                host=Host(),
            ),
            {"deleting_for": timedelta(seconds=15)},
        ),
        Scene(
            "only the component that needs it is being deleted",
            scene(
                component(STORE), a_plane(), a_component(SERVER, of=planes.DELETED), policy=ETCD, host=Host()
            ),
            {"deleting_for": timedelta()},
        ),
        etcd_scene(
            "an etcd that was never started",
            {"policy": ETCD, "addresses": THREE, "access": None, **size(3)}
            | {"membership.variables": BORN}
            | {"workload": Wanted(identity(STORE), "3.6.1", 3, environment=BORN)},
        ),
        etcd_scene(
            "an etcd that was stopped with two, and has begun",
            size(2, settled=False)
            | {
                "workload.environment": {
                    "INITIAL_CLUSTER": ",".join(f"{name}={PEERS[name]}" for name in list(PEERS)[:2]),
                    "INITIAL_CLUSTER_STATE": "existing",
                }
            },
            of=component(
                STORE,
                {"version": "3.6.1", "addresses": [{"ip": "127.0.0.2"}, {"ip": "127.0.0.3"}]},
                replicas=3,
            ),
        ),
        etcd_scene(
            "an etcd of one that becomes three: its member is asked",
            size(
                1,
                "c-etcd-1 is to become a member",
                settled=False,
                steps=(members.AddLearner("c-etcd-1", PEERS["c-etcd-1"]),),
            )
            | {"access": ACCESS, "membership.variables": ALONE},
            *CREDENTIALS,
            running=runs(instance(STORE)),
            etcd=Etcd((FIRST,)),
        ),
        etcd_scene(
            "an etcd that does not answer",
            size(2, "its members could not be asked: none listens", settled=False)
            | {"membership.variables": ALONE, "access.credentials": ACCESS.credentials},
            *CREDENTIALS,
            running=TWO,
            etcd=Etcd("none listens"),
        ),
        etcd_scene(
            "the Secrets of our clients are not there",
            {**size(1, NO_CERTIFICATES, settled=False), "access": None},
            running=runs(instance(STORE)),
        ),
        etcd_scene(
            "one of the Secrets of our clients has no certificate",
            {**size(1, NO_CERTIFICATES, settled=False), "access": None},
            CREDENTIALS[0],
            a_secret("c-etcd-health-client", **{"tls.key": "KEY"}),
            running=runs(instance(STORE)),
        ),
        etcd_scene(
            "an etcd of one that is as its spec wants it is not asked",
            {**size(1), "access": None, "membership.variables": ALONE},
            *CREDENTIALS,
            of=component(STORE, up_to_date(2), of={"generation": 2}),
            running=runs(instance(STORE), variables=ALONE),
        ),
        etcd_scene(
            "the same, of another generation, is asked",
            {**size(1, "all instances are members"), "access": ACCESS},
            *CREDENTIALS,
            of=component(STORE, up_to_date(2), of={"generation": 3}),
            running=runs(instance(STORE)),
            etcd=Etcd((FIRST,)),
        ),
        etcd_scene(
            "the same, whose status says that it is not, is asked",
            {"access": ACCESS},
            *CREDENTIALS,
            of=component(STORE, up_to_date(2, status="False"), of={"generation": 2}),
            running=runs(instance(STORE)),
            etcd=Etcd((FIRST,)),
        ),
        etcd_scene(
            "an etcd without members",
            {**size(3), "access": None, "membership.variables": {}},
            *CREDENTIALS,
            running=runs(instance(STORE)),
            knows=KNOWN,
        ),
    ),
    given={"failed": "the pass says why a step of it failed"},
)
