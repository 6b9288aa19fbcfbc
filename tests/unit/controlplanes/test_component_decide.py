"""What comes next for a component: which steps, and what is said about it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.unit.controlplanes.component_views import (
    NOW,
    RUNNING,
    WAITING,
    api_server,
    etcd,
    family,
    instance,
    plane,
    running,
    with_meta,
    workload,
)

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.api.controlplane.names import (
    KEEP_DATA_ANNOTATION,
    LOST_DATA_ANNOTATION,
    RESTORING_ANNOTATION,
    Component,
)
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_CONTROLLER_MANAGER,
    Address,
    EtcdStatus,
    NestedAPIServer,
    NestedAPIServerSpec,
    NestedAPIServerStatus,
    NestedControllerManager,
    NestedControllerManagerStatus,
    NestedControlPlane,
    NestedControlPlaneStatus,
    NestedEtcd,
    NestedEtcdSpec,
    NestedEtcdStatus,
)
from kubewright.api.meta import ObjectMeta
from kubewright.base.delays import DATED, JUST_PAST, UNHEARD
from kubewright.controlplanes import members
from kubewright.controlplanes.component.decide import (
    AddFinalizer,
    Apply,
    ChangeMembers,
    KeepCertificates,
    Remove,
    RemoveFinalizer,
    Replace,
    Reserve,
    decide,
)
from kubewright.controlplanes.component.policies import ETCD
from kubewright.controlplanes.component.seen import LONGEST_WAIT, Certificates, Seen
from kubewright.controlplanes.component.workload import Membership
from kubewright.controlplanes.family import Family, Pause
from kubewright.controlplanes.hosting.contract import Running, WorkloadAddresses
from kubewright.controlplanes.templates.choice import NoChoice, Version, Versions

NEWER = workload("1.37.0")
PAUSE = Pause("it is paused")
ETCD_FIRST = Versions(
    components={
        Component.ETCD: Version("NestedEtcd store", "3.6.6", "3.6.8"),
        Component.API_SERVER: Version("NestedAPIServer front", "1.36.3", "1.37.0"),
    }
)
BACK = Versions(components={Component.API_SERVER: Version("NestedAPIServer front", "1.37.0", "1.36.3")})
SLOW_ETCD = family(etcd(ready=False))
DELETED = with_meta(api_server(), deletion_timestamp=NOW)

DELETED_MANAGER = NestedControllerManager(metadata=ObjectMeta(name="loops", deletion_timestamp=NOW))


def beside(manager: NestedControllerManager, *, deleting: bool = False) -> Family:
    """A control plane with this controller manager."""
    of = plane()
    if deleting:
        of = structs.replace(of, metadata=structs.replace(of.metadata, deletion_timestamp=NOW))
    return Family(of, components={Component.CONTROLLER_MANAGER: manager})


def falls_asleep(*, replicas: int) -> Family:
    """A control plane that falls asleep, and so many instances of its controller manager still run."""
    of = structs.replace(plane(), status=NestedControlPlaneStatus(asleep=True))
    manager = NestedControllerManager(
        metadata=ObjectMeta(name="loops"), status=NestedControllerManagerStatus(replicas=replicas)
    )
    return Family(of, components={Component.ETCD: etcd(), Component.CONTROLLER_MANAGER: manager})


def outer_etcd() -> NestedControlPlane:
    """A control plane whose etcd another program has, which says where it is."""
    status = NestedControlPlaneStatus(etcd=EtcdStatus(addresses=(Address(ip="10.0.0.1", port=2379),)))
    found = plane(etcd=None)
    return NestedControlPlane(metadata=found.metadata, spec=found.spec, status=status)


WITHOUT_ADDRESS = WorkloadAddresses(waits="the load balancer has no address yet")
MISSING = Certificates(("make",), "there are none")


def deleted_etcd(
    server: NestedAPIServer | None = None, *, of: NestedControlPlane | None = None, **annotations: str
) -> Seen:
    """An etcd that runs and is deleted, of a control plane with this API server."""
    meta = structs.replace(DELETED.metadata, name="store", annotations=annotations)
    runs = api_server(status=NestedAPIServerStatus(replicas=1))
    whole = Family(of or plane(), components={Component.API_SERVER: server or runs})
    return replace(RUNNING, policy=ETCD, component=NestedEtcd(metadata=meta), family=whole)


def wakes(*data: int, there: bool = True, version: str = "3.6.8", **annotations: str) -> Seen:
    """An etcd of three members that slept and is to start; ``data``: the ordinals whose data is there."""
    of = {"addresses": tuple(Address(ip=f"127.0.0.{each}") for each in range(3)), "version": version}
    meta = structs.replace(api_server().metadata, name="store", annotations=annotations)
    found = NestedEtcd(metadata=meta, spec=NestedEtcdSpec(replicas=3), status=NestedEtcdStatus(**of))
    known = frozenset(data) if there else None
    stopped = Running((), workload().fingerprint, 0, exists=True, data=known)
    asked = workload(replicas=3)
    return replace(WAITING, policy=ETCD, component=found, running=stopped, workload=asked)


LOST = (
    "the data of demo-apiserver-0,demo-apiserver-2 is gone: bring it back, or have a ControlPlaneRestore put a "
    f"snapshot there; to start without it, annotate the NestedEtcd with {LOST_DATA_ANNOTATION}="
    "demo-apiserver-0,demo-apiserver-2"
)

RESTORED = with_meta(plane(), annotations={RESTORING_ANNOTATION: "back"})

IN_USE = (
    "it is being deleted, and NestedAPIServer front uses its data: delete that too, set its replicas to 0, or "
    f"keep the data by the annotation {KEEP_DATA_ANNOTATION}"
)

RESIZED = Membership(
    2, {}, members.Plan((members.Promote(7, "c"),), because="c has all data"), settled=False, needs_all=True
)
"""Two voters and a learner; both voters are needed."""
OUTDATED = replace(RUNNING, workload=NEWER, running=running(instance(0), instance(1), of=NEWER))

STEPS: dict[str, tuple[Seen, tuple[object, ...]]] = {
    "what should run is applied when nothing holds it up": (WAITING, (Apply(workload()),)),
    "what runs as it should is left alone": (RUNNING, ()),
    "Services come before the certificates that name their addresses": (
        replace(WAITING, to_reserve=workload(), certificates=MISSING),
        (Reserve(workload()),),
    ),
    "Services of a component that runs are changed too": (
        replace(RUNNING, to_reserve=workload()),
        (Reserve(workload()),),
    ),
    "no Service is made for a spec that has to be mended": (
        replace(WAITING, to_reserve=workload(), rendered=workload(problems=("no such flag",)).rendered),
        (),
    ),
    "no certificate is made before a load balancer has an address": (
        replace(WAITING, addresses=WITHOUT_ADDRESS, certificates=MISSING),
        (),
    ),
    "nothing starts before a load balancer has an address": (replace(WAITING, addresses=WITHOUT_ADDRESS), ()),
    "certificates of what runs are renewed while a load balancer has no address": (
        replace(RUNNING, addresses=WITHOUT_ADDRESS, certificates=MISSING),
        (KeepCertificates(("make",)),),
    ),
    "a component without our finalizer gets it before anything runs": (
        replace(WAITING, component=with_meta(api_server(), finalizers=())),
        (AddFinalizer("demo"),),
    ),
    "a component without an owner is not touched": (replace(WAITING, family=None, identity=None), ()),
    "a component whose name that of another control plane has is not touched": (
        replace(WAITING, rival="NestedAPIServer b of NestedControlPlane q", identity=None),
        (),
    ),
    "an API server does not start before its etcd is ready": (replace(WAITING, family=SLOW_ETCD), ()),
    "an API server does not start before its etcd exists": (replace(WAITING, family=family()), ()),
    "an etcd whose addresses another program wrote is enough": (
        replace(WAITING, family=family(of=outer_etcd())),
        (Apply(workload()),),
    ),
    "certificates are made while etcd is waited for": (
        replace(WAITING, family=SLOW_ETCD, certificates=Certificates(("make",), "there are none")),
        (KeepCertificates(("make",)),),
    ),
    "nothing starts without certificates": (
        replace(WAITING, certificates=Certificates(waiting="Secret demo-ca is not there")),
        (),
    ),
    "nothing starts with a patch that is for no object": (
        replace(WAITING, rendered=workload(problems=("spec.patches[0] is for no object",)).rendered),
        (),
    ),
    "nothing starts without the files that its spec names": (
        replace(WAITING, missing=("Secret audit",), workload=None),
        (),
    ),
    "an etcd that falls silent takes no API server with it": (replace(RUNNING, family=SLOW_ETCD), ()),
    "a new version is applied": (replace(RUNNING, workload=NEWER), (Apply(NEWER),)),
    "a new version waits for an etcd that is not ready": (
        replace(RUNNING, workload=NEWER, family=SLOW_ETCD),
        (),
    ),
    "a new version waits for an etcd that becomes another one first": (
        replace(RUNNING, workload=NEWER, versions=ETCD_FIRST),
        (),
    ),
    "what runs already does not wait": (replace(RUNNING, versions=ETCD_FIRST), ()),
    "a version that is refused is not applied": (
        replace(RUNNING, workload=NEWER, versions=BACK),
        (),
    ),
    "an instance of the version before is replaced": (
        replace(RUNNING, workload=NEWER, running=running(instance(), of=NEWER)),
        (Replace(0),),
    ),
    "a ready member is not replaced while each is needed: the number of members changes first": (
        replace(OUTDATED, membership=RESIZED),
        (ChangeMembers(members.Promote(7, "c")),),
    ),
    "a member that is not ready is replaced even then": (
        replace(
            OUTDATED,
            membership=RESIZED,
            running=running(instance(0, ready=False), instance(1), of=NEWER),
        ),
        (Replace(0),),
    ),
    "no instance is replaced while etcd is not ready": (
        replace(RUNNING, workload=NEWER, running=running(instance(), of=NEWER), family=SLOW_ETCD),
        (),
    ),
    "a component may fall asleep while etcd is not ready": (
        replace(
            RUNNING,
            component=api_server(spec=NestedAPIServerSpec(replicas=0)),
            workload=workload(replicas=0),
            family=SLOW_ETCD,
        ),
        (Apply(workload(replicas=0)),),
    ),
    "what falls asleep after another one gets no new settings meanwhile": (
        replace(RUNNING, workload=NEWER, family=falls_asleep(replicas=1)),
        (),
    ),
    "nor is an instance with earlier settings replaced": (
        replace(
            RUNNING, workload=NEWER, running=running(instance(), of=NEWER), family=falls_asleep(replicas=1)
        ),
        (),
    ),
    "once the other one has ended it stops": (
        replace(RUNNING, workload=workload(replicas=0), family=falls_asleep(replicas=0)),
        (Apply(workload(replicas=0)),),
    ),
    "a component that never ran and is to sleep stays as it is": (
        replace(
            WAITING,
            component=api_server(spec=NestedAPIServerSpec(replicas=0)),
            workload=workload(replicas=0),
        ),
        (),
    ),
    "more instances are applied": (
        replace(
            RUNNING, component=api_server(spec=NestedAPIServerSpec(replicas=2)), workload=workload(replicas=2)
        ),
        (Apply(workload(replicas=2)),),
    ),
    "nothing is done with what is paused": (replace(WAITING, pause=PAUSE), ()),
    "what another program manages is left alone": (
        replace(WAITING, component=with_meta(api_server(), annotations={MANAGED_BY_ANNOTATION: "eco"})),
        (),
    ),
    "on deletion what runs is ended, with its data": (
        replace(RUNNING, component=DELETED),
        (Remove(keep_data=False),),
    ),
    "on deletion data stays where a user asked for it": (
        replace(RUNNING, component=with_meta(DELETED, annotations={KEEP_DATA_ANNOTATION: ""})),
        (Remove(keep_data=True),),
    ),
    "the finalizer goes when nothing is left": (
        replace(RUNNING, component=DELETED, running=Running()),
        (RemoveFinalizer(),),
    ),
    "what runs under its name for another control plane does not end with it": (
        replace(RUNNING, component=DELETED, rival="NestedAPIServer b of NestedControlPlane q"),
        (RemoveFinalizer(),),
    ),
    "a deletion needs no control plane": (
        replace(RUNNING, component=DELETED, family=None),
        (Remove(keep_data=False),),
    ),
    "where all are deleted at once, a component lets the one that needs it end first": (
        replace(RUNNING, component=DELETED, family=beside(DELETED_MANAGER)),
        (),
    ),
    "it does so too where the control plane is deleted, which deletes that one soon": (
        replace(RUNNING, component=DELETED, family=beside(NestedControllerManager(), deleting=True)),
        (),
    ),
    "one that is deleted alone does not wait for the one that needs it": (
        replace(RUNNING, component=DELETED, family=beside(NestedControllerManager())),
        (Remove(keep_data=False),),
    ),
    "after two minutes it waits for it no longer": (
        replace(RUNNING, component=DELETED, family=beside(DELETED_MANAGER), deleting_for=LONGEST_WAIT),
        (Remove(keep_data=False),),
    ),
    "an etcd that is deleted alone stays while an API server runs": (deleted_etcd(), ()),
    "it stays however long that takes": (replace(deleted_etcd(), deleting_for=10 * LONGEST_WAIT), ()),
    "it goes once the API server has no instance": (deleted_etcd(api_server()), (Remove(keep_data=False),)),
    "it lets an API server that is deleted later end first": (
        deleted_etcd(with_meta(api_server(status=NestedAPIServerStatus(replicas=1)), deletion_timestamp=NOW)),
        (),
    ),
    "it stays for an API server of another program that says only that it is ready": (
        deleted_etcd(
            with_meta(
                api_server(status=NestedAPIServerStatus(ready=True)), annotations={MANAGED_BY_ANNOTATION: "x"}
            )
        ),
        (),
    ),
    "it goes without its data": (
        deleted_etcd(**{KEEP_DATA_ANNOTATION: ""}),
        (Remove(keep_data=True),),
    ),
    "it stays while a restore replaces the data that is kept": (
        deleted_etcd(of=RESTORED, **{KEEP_DATA_ANNOTATION: ""}),
        (),
    ),
    "it goes with data that a restore replaces": (
        deleted_etcd(api_server(), of=RESTORED),
        (Remove(keep_data=False),),
    ),
    "it goes where another program manages it now": (
        deleted_etcd(**{MANAGED_BY_ANNOTATION: "eco"}),
        (Remove(keep_data=False),),
    ),
    "it goes where its control plane names another etcd": (
        deleted_etcd(of=plane(etcd=ObjectReference(name="other"))),
        (Remove(keep_data=False),),
    ),
    "an etcd that wakes starts with its data": (wakes(0, 1, 2), (Apply(workload(replicas=3)),)),
    "it does not start where some of it is gone": (wakes(1), ()),
    "unless a user gave that up": (
        wakes(1, **{LOST_DATA_ANNOTATION: "demo-apiserver-0, demo-apiserver-2"}),
        (Apply(workload(replicas=3)),),
    ),
    "but not for another one": (wakes(1, **{LOST_DATA_ANNOTATION: "demo-apiserver-0"}), ()),
    "it starts where nothing is known of its data": (wakes(there=False), (Apply(workload(replicas=3)),)),
    "one that was never ready has no data to lose": (wakes(version=""), (Apply(workload(replicas=3)),)),
    "what we started is ended though another program manages it now": (
        replace(RUNNING, component=with_meta(DELETED, annotations={MANAGED_BY_ANNOTATION: "eco"})),
        (Remove(keep_data=False),),
    ),
    "a deleted object of another program is let go by it": (
        replace(RUNNING, component=with_meta(DELETED, finalizers=())),
        (),
    ),
}


@pytest.mark.parametrize(("seen", "steps"), STEPS.values(), ids=STEPS.keys())
def test_the_steps_of_a_plan(seen: Seen, steps: tuple[object, ...]) -> None:
    assert decide(seen).steps == steps


@pytest.mark.parametrize("seen", [each for each, _ in STEPS.values()], ids=STEPS.keys())
def test_every_plan_has_a_reason(seen: Seen) -> None:
    assert decide(seen).because


SAID = {
    "which etcd is missing": (replace(WAITING, family=family()), "there is no NestedEtcd store"),
    "which etcd is not ready": (replace(WAITING, family=SLOW_ETCD), "NestedEtcd store is not ready"),
    "that no etcd is named": (
        replace(WAITING, family=family(of=plane(etcd=None))),
        "NestedControlPlane demo names no NestedEtcd, and its status.etcd.addresses is empty",
    ),
    "which other component has its name": (
        replace(WAITING, rival="NestedAPIServer b of NestedControlPlane q", identity=None),
        "NestedAPIServer b of NestedControlPlane q has the names of its instances and Secrets: wait until that "
        "is gone, or create this control plane anew under another name, or with another label "
        "cluster.x-k8s.io/cluster-name",
    ),
    "that there is no such channel": (
        replace(WAITING, choice=NoChoice("there is no channel fast; there are: stable")),
        "there is no channel fast; there are: stable",
    ),
    "which component ends first": (
        replace(RUNNING, component=DELETED, family=beside(DELETED_MANAGER)),
        "it is being deleted, and NestedControllerManager loops ends before it",
    ),
    "which data is gone, and how to go on": (wakes(1), LOST),
    "what uses an etcd that is deleted alone": (deleted_etcd(), IN_USE),
    "which component has its version first": (
        replace(RUNNING, workload=NEWER, versions=ETCD_FIRST),
        "NestedEtcd store has version 3.6.6, and becomes 3.6.8 first",
    ),
    "why a version is refused": (
        replace(RUNNING, versions=BACK),
        "it has version 1.37.0 and cannot become 1.36.3: what 1.37 has stored, an older minor version may not "
        "read; name one of 1.37 or 1.38",
    ),
    "that etcd needs an odd number": (
        replace(WAITING, policy=ETCD, component=api_server(spec=NestedAPIServerSpec(replicas=2))),
        "spec.replicas is 2: etcd needs an odd number of members: with 2 it stands the loss of no more of them "
        "than with 1",
    ),
}


@pytest.mark.parametrize(("seen", "told"), SAID.values(), ids=SAID.keys())
def test_the_reason_says(seen: Seen, told: str) -> None:
    assert decide(seen).because == told


@pytest.mark.parametrize("seen", [each for each, _ in SAID.values()], ids=SAID.keys())
def test_what_is_waited_for_is_named_with_what_a_user_can_do(seen: Seen) -> None:
    (wait,) = decide(seen).awaits
    assert wait.what
    assert decide(seen).because in wait.remedy


def test_what_a_user_has_to_mend_is_looked_at_again_without_an_event() -> None:
    """A Secret outside our caches, or a program that is installed later, sends none."""
    broken = replace(WAITING, unhosted="no program kube-apiserver 1.36 is installed")
    assert decide(broken).wake == UNHEARD


def test_a_certificate_that_is_due_in_months_is_looked_at_in_between() -> None:
    """A wall clock may step, and a machine that was suspended has not counted the time."""
    good = replace(RUNNING, certificates=Certificates(wake=timedelta(days=200)))
    assert decide(good).wake == DATED


@pytest.mark.parametrize(
    ("seen", "wake"),
    [
        pytest.param(
            replace(WAITING, certificates=Certificates(waiting="Secret demo-ca is not there")),
            UNHEARD,
            id="a certificate that a user brings",
        ),
        pytest.param(
            replace(
                WAITING, family=SLOW_ETCD, certificates=Certificates(problem="Secret demo-ca has no key")
            ),
            UNHEARD,
            id="one that a user mends, while etcd is waited for too",
        ),
        pytest.param(replace(WAITING, missing=("Secret audit",)), UNHEARD, id="a file that a user brings"),
        pytest.param(replace(WAITING, family=SLOW_ETCD), None, id="not for etcd: its status is an event"),
    ],
)
def test_when_to_look_for_a_secret_that_may_be_in_no_watch(seen: Seen, wake: timedelta | None) -> None:
    assert decide(seen).wake == wake


def test_a_foreign_component_is_not_reported_on() -> None:
    foreign = with_meta(api_server(), annotations={MANAGED_BY_ANNOTATION: "eco"})
    assert decide(replace(WAITING, component=foreign)).silent


RUNS, STOPS, ENDED = {"status": {"replicas": 1}}, {"spec": {"replicas": 0}, "status": {"replicas": 1}}, {}
ALONE, BOTH = timedelta(seconds=10), timedelta(minutes=2)


@pytest.mark.parametrize(
    ("manager", "waited", "replicas", "wake"),
    [
        pytest.param(STOPS, timedelta(), 1, BOTH, id="the one that needs it is to end too, and runs"),
        pytest.param(STOPS, BOTH - ALONE, 1, ALONE, id="it may take its time"),
        pytest.param(STOPS, BOTH, 0, None, id="but not for ever"),
        pytest.param(ENDED, timedelta(), 0, None, id="the one that needs it has ended"),
        pytest.param(None, timedelta(), 0, None, id="none needs it"),
        pytest.param(
            RUNS, timedelta(), 1, ALONE, id="a user who writes one after the other gets some seconds"
        ),
        pytest.param(RUNS, ALONE, 0, None, id="a user who wants to end this one alone may"),
        pytest.param(
            STOPS | {"metadata": {"annotations": {MANAGED_BY_ANNOTATION: "eco"}}},
            timedelta(),
            0,
            None,
            id="another program's is not waited for",
        ),
    ],
)
def test_what_is_to_have_no_instance_ends_after_the_one_that_needs_it(manager, waited, replicas, wake):
    meta = {"metadata": {"name": "loops"}}
    needs = (
        {Component.CONTROLLER_MANAGER: NESTED_CONTROLLER_MANAGER.from_plain(meta | manager)}
        if manager is not None
        else {}
    )
    seen = replace(
        RUNNING,
        component=api_server(spec=NestedAPIServerSpec(replicas=0)),
        workload=workload(),
        family=Family(plane(), components=needs),
        none_for=waited,
    )
    assert seen.replicas == replicas
    plan = decide(replace(seen, workload=workload(replicas=seen.size)))
    if wake is None:
        assert plan.steps == (Apply(workload(replicas=0)),)
    else:
        assert plan.wake == wake + JUST_PAST
        assert plan.because == "it should have no instance, and NestedControllerManager loops ends before it"
