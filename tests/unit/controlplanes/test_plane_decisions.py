"""What a control plane does with the components that it names, and what its status says of them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.cluster.conditions import ERROR, INFO, false_condition, true_condition
from kubewright.api.cluster.v1beta1 import CLUSTER, ApiEndpoint
from kubewright.api.controlplane.names import FINALIZER, PUBLISHED_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import (
    API_VERSION,
    NESTED_CONTROL_PLANE,
    Address,
    EtcdStatus,
    NestedControlPlaneStatus,
)
from kubewright.api.meta import OwnerReference
from kubewright.base.delays import UNHEARD
from kubewright.controlplanes.family import KINDS, Family, Pause
from kubewright.controlplanes.plane.act import events_of
from kubewright.controlplanes.plane.decide import (
    AddFinalizer,
    Adopt,
    DeleteComponent,
    PublishEndpoint,
    RemoveFinalizer,
    decide,
)
from kubewright.controlplanes.plane.seen import Seen
from kubewright.controlplanes.plane.status import status_of, underway
from kubewright.testing.clocks import BEGIN as NOW

FIELDS = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "apiserver",
    Component.CONTROLLER_MANAGER: "controllerManager",
}
PAUSE = Pause("it is paused")
ENDPOINT = {"host": "127.0.0.2", "port": 6443}
NEW = {"host": "api.example.com", "port": 443}
THERE = ApiEndpoint(**NEW)
NONE = {"no": "Cluster"}


def plane(*names, finalizer=True, deleting=False, spec=None, status=None, **meta):
    metadata = {"name": "demo", "namespace": "ns", "uid": "p", "generation": 3, **meta}
    if finalizer:
        metadata["finalizers"] = [FINALIZER]
    if deleting:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    asked = {FIELDS[each]: {"name": f"my-{each}"} for each in names or Component}
    return NESTED_CONTROL_PLANE.from_plain(
        {"metadata": metadata, "spec": asked | (spec or {}), "status": status or {}}
    )


def owner(name="demo", uid="p", kind="NestedControlPlane"):
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": True}


def component(which, *, by="demo", ready=True, deleting=False, **status):
    owners = [] if by is None else [owner(by, "p" if by == "demo" else f"uid-{by}")]
    metadata = {
        "name": f"my-{which}",
        "namespace": "ns",
        "uid": f"u-{which}",
        "generation": 2,
        "ownerReferences": owners,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    told = {"ready": ready, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 2}
    return KINDS[which].from_plain({"metadata": metadata, "status": told | status})


def seen(of=None, *there, **more):
    found = dict(there) if there else {each: component(each) for each in Component}
    of = of or plane()
    owned = tuple(
        (which, each)
        for which, each in found.items()
        if each.metadata.controller is not None and each.metadata.controller.uid == of.metadata.uid
    )
    facts = {"kubeconfig": True, "owned": owned, **more}
    cluster = facts.pop("cluster", None)
    return Seen(Family(of, cluster, found), NOW, **facts)


def moved(*, to=None, by_us="127.0.0.2:6443", clusters=NONE):
    """One whose API server is reached elsewhere than was published; ``clusters``: the endpoint of its Cluster."""
    mark = {PUBLISHED_ANNOTATION: by_us}
    of = plane(spec={"controlPlaneEndpoint": ENDPOINT}, annotations=mark)
    spec = {} if clusters is None else {"controlPlaneEndpoint": clusters}
    whole = CLUSTER.from_plain({"metadata": {"name": "demo", "namespace": "ns"}, "spec": spec})
    cluster = None if clusters is NONE else whole
    return seen(of, (SERVER, component(SERVER, endpoint=to or NEW)), cluster=cluster)


def three(**of_each):
    return [(each, component(each, **of_each)) for each in Component]


def said(view):
    return {each.type: (each.status, each.reason, each.message) for each in status_of(view).conditions}


ETCD, SERVER, MANAGER = Component


def test_an_endpoint_that_is_not_followed_says_why_and_how_to_go_on():
    view = moved(clusters=ENDPOINT)
    told = (
        "its API server is reached at api.example.com:443 now, and Cluster demo and its machines know "
        "127.0.0.2:6443: have 127.0.0.2:6443 lead to it, or write api.example.com:443 into "
        "spec.controlPlaneEndpoint of the Cluster"
    )
    before, after = view.family.plane.status, status_of(view)
    assert (decide(view).because, said(view)["EndpointAvailable"]) == (told, ("False", "EndpointMoved", told))
    assert ("EndpointMoved", told, True) in list(events_of(before, after))
    assert not list(events_of(after, after))
    assert said(moved())["EndpointAvailable"][0] == "True"


@pytest.mark.parametrize(
    ("view", "wake"),
    [
        pytest.param(
            seen(plane(), kubeconfig=False),
            UNHEARD,
            id="a kubeconfig that is missing is looked for again: one without a label sends no event",
        ),
        pytest.param(
            seen(plane(), (Component.API_SERVER, component(Component.API_SERVER, ready=False)), kubeconfig=False),
            None,
            id="not before the API server is ready: that is an event",
        ),
        pytest.param(seen(plane()), None, id="nothing is missing"),
    ],
)  # fmt: skip
def test_when_to_look_again(view, wake):
    assert decide(view).wake == wake


@pytest.mark.parametrize(
    ("view", "steps"),
    [
        pytest.param(seen(plane(finalizer=False)), (AddFinalizer(),), id="first the finalizer"),
        pytest.param(
            seen(plane(), *three(by=None)),
            tuple(Adopt(each, component(each, by=None)) for each in Component),
            id="components without an owner become its own",
        ),
        pytest.param(seen(plane(), (ETCD, component(ETCD))), (), id="one that is not there is waited for"),
        pytest.param(
            seen(plane(), (ETCD, component(ETCD, by="other"))), (), id="one of another control plane is left"
        ),
        pytest.param(
            seen(plane(), (ETCD, component(ETCD, by=None, deleting=True))), (), id="one that is deleted is left"
        ),
        pytest.param(seen(), (), id="all are its own"),
        pytest.param(
            seen(plane(), *three(by=None), problem="spec.etcd.kind: Invalid value"), (), id="a spec that is broken"
        ),
        pytest.param(
            seen(plane(), (SERVER, component(SERVER, endpoint=ENDPOINT))),
            (PublishEndpoint(ApiEndpoint(**ENDPOINT)),),
            id="the endpoint of the API server is published",
        ),
        pytest.param(
            seen(plane(spec={"controlPlaneEndpoint": {"host": "x", "port": 1}}), (SERVER, component(SERVER, endpoint=ENDPOINT))),
            (),
            id="unless there is one",
        ),
        pytest.param(moved(), (PublishEndpoint(THERE),), id="an API server that moves is followed"),
        pytest.param(moved(clusters=None), (PublishEndpoint(THERE),), id="also before the Cluster has copied it"),
        pytest.param(moved(clusters=NEW), (PublishEndpoint(THERE),), id="and after a user has led the Cluster there"),
        pytest.param(moved(clusters=ENDPOINT), (), id="but not while the Cluster and its machines know the former"),
        pytest.param(moved(by_us="127.0.0.9:6443"), (), id="nor if a user has written another one since"),
        pytest.param(moved(to=ENDPOINT), (), id="nothing to follow where it is still there"),
        pytest.param(
            seen(plane(), (SERVER, component(SERVER, by="other", endpoint=ENDPOINT))),
            (),
            id="that of another's API server is not",
        ),
        pytest.param(
            seen(plane(), (SERVER, component(SERVER, endpoint={"host": "", "port": 0}))), (), id="nor half of one"
        ),
        pytest.param(seen(plane(finalizer=False), pause=PAUSE), (), id="paused: nothing"),
        pytest.param(
            seen(plane(finalizer=False, annotations={"cluster.x-k8s.io/managed-by": "me"})),
            (),
            id="another program manages it: nothing",
        ),
        pytest.param(seen(plane(deleting=True), pause=PAUSE), (), id="paused: it is not even let go"),
        pytest.param(
            seen(plane(deleting=True)),
            (DeleteComponent(MANAGER, component(MANAGER)),),
            id="deleted: first the controller manager",
        ),
        pytest.param(
            seen(plane(deleting=True), *three()[:2], (MANAGER, component(MANAGER, deleting=True))),
            (),
            id="deleted: until it is gone",
        ),
        pytest.param(
            seen(plane(deleting=True), *three()[:2]),
            (DeleteComponent(SERVER, component(SERVER)),),
            id="deleted: then the API server",
        ),
        pytest.param(
            seen(plane(deleting=True), *three()[:1]),
            (DeleteComponent(ETCD, component(ETCD)),),
            id="deleted: then etcd",
        ),
        pytest.param(
            seen(plane(SERVER, deleting=True), *three()[:1]),
            (DeleteComponent(ETCD, component(ETCD)),),
            id="deleted: one that it names no more goes too",
        ),
        pytest.param(
            seen(plane(deleting=True), *three(by="other")),
            (RemoveFinalizer(),),
            id="deleted: components of another stay",
        ),
        pytest.param(
            seen(plane(deleting=True), *three(by=None)), (RemoveFinalizer(),), id="deleted: so do those of no one"
        ),
        pytest.param(seen(plane(deleting=True, finalizer=False)), (), id="deleted: it is let go"),
    ],
)  # fmt: skip
def test_what_comes_next(view, steps):
    answer = decide(view)
    assert answer.steps == steps
    assert answer.because


@pytest.mark.parametrize(
    ("view", "ready"),
    [
        pytest.param(seen(), True, id="all are ready"),
        pytest.param(seen(plane(ETCD, SERVER), *three()[:2]), True, id="two of two are ready"),
        pytest.param(seen(plane(SERVER), three()[1]), True, id="one of one"),
        pytest.param(seen(plane(), *three()[:2]), False, id="one is not there"),
        pytest.param(seen(plane(), *three(by=None)), False, id="they are not its own yet"),
        pytest.param(seen(plane(), *three(by="other")), False, id="they are another's"),
        pytest.param(seen(plane(), *three()[:2], (MANAGER, component(MANAGER, ready=False))), False, id="one is not ready"),
        pytest.param(seen(plane(), *three()[:2], (MANAGER, component(MANAGER, deleting=True))), False, id="one is deleted"),
        pytest.param(seen(kubeconfig=False), False, id="its kubeconfig does not exist yet"),
        pytest.param(seen(problem="broken"), False, id="its spec is broken"),
        pytest.param(seen(plane(deleting=True)), False, id="it is deleted"),
        pytest.param(
            seen(structs.replace(plane(), spec=NESTED_CONTROL_PLANE.from_plain({}).spec)), False, id="it names none"
        ),
    ],
)  # fmt: skip
def test_ready_is_what_all_that_are_named_are_both_ways(view, ready):
    for before in (False, True):
        was = structs.replace(view.family.plane.status, ready=before)
        of = structs.replace(view.family.plane, status=was)
        status = status_of(replace(view, family=replace(view.family, plane=of)))
        assert status.ready is ready
        assert said(view)["Ready"][0] == str(ready)


def test_initialized_stays_once_the_api_server_was_ready():
    first = status_of(seen(plane(), *three(ready=False)))
    assert first.initialized is False
    then = status_of(seen(plane(), (SERVER, component(SERVER))))
    assert (then.initialized, then.ready) == (True, False)
    later = status_of(seen(plane(status={"initialized": True}), *three(ready=False)))
    assert (later.initialized, later.ready) == (True, False)


def test_instances_and_version_are_those_of_the_api_server():
    told = {"version": "1.36.3", "replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "selector": "a=b"}
    status = status_of(seen(plane(), (SERVER, component(SERVER, **told))))
    assert (status.version, status.selector) == ("v1.36.3", "a=b")
    counts = status.replicas, status.ready_replicas, status.updated_replicas, status.unavailable_replicas
    assert counts == (3, 2, 1, 1)
    assert (status.external_managed_control_plane, status.observed_generation) == (True, 3)
    gone = status_of(
        seen(plane(status={"version": "v1.36.3", "replicas": 3, "readyReplicas": 3}), three()[0])
    )
    assert (gone.version, gone.replicas, gone.ready_replicas) == ("v1.36.3", 0, 0)


def test_addresses_of_etcd_are_its_own_or_another_programs():
    addresses = [{"hostname": "e", "port": 2379}]
    own = status_of(seen(plane(), (ETCD, component(ETCD, addresses=addresses))))
    theirs = status_of(seen(plane(SERVER, status={"etcd": {"addresses": addresses}}), three()[1]))
    for each in (own, theirs):
        assert each.etcd == EtcdStatus(addresses=(Address(hostname="e", port=2379),))


def test_the_range_of_services_is_that_of_the_cluster_and_stays():
    network = {"clusterNetwork": {"services": {"cidrBlocks": ["10.32.0.0/16", "fd00::/108"]}}}
    assert status_of(seen()).apiserver.service_cidr == "10.96.0.0/12"
    of_cluster = CLUSTER.from_plain({"spec": network})
    assert status_of(seen(cluster=of_cluster)).apiserver.service_cidr == "10.32.0.0/16,fd00::/108"
    kept = plane(status={"apiserver": {"serviceCidr": "10.1.0.0/16"}})
    assert status_of(seen(kept, cluster=of_cluster)).apiserver.service_cidr == "10.1.0.0/16"


GOOD = ("True", "", "")
ALL_GOOD = dict.fromkeys(
    (
        "Ready",
        "Available",
        "EtcdAvailable",
        "APIServerAvailable",
        "ControllerManagerAvailable",
        "EndpointAvailable",
        "KubeconfigAvailable",
        "UpToDate",
    ),
    GOOD,
)
REACHED = {"controlPlaneEndpoint": ENDPOINT}


def test_conditions_of_one_in_which_all_is_well():
    assert said(seen(plane(spec=REACHED))) == ALL_GOOD


def condition(about, status="False", reason="", message="", severity="Info"):
    return {"type": about, "status": status, "reason": reason, "message": message, "severity": severity}


NO_TEMPLATE = condition("Ready", reason="NoTemplates", message="there is no channel x", severity="Error")
REFUSED = condition(
    "UpToDate", reason="CannotBeApplied", message="the flag x is set by the controller", severity="Error"
)
ROLLS = condition("UpToDate", reason="RollingOut", message="one of three")
NO_CERTIFICATE = condition("CertificatesReady", reason="WaitingForCertificates", message="Secret c is bad")


@pytest.mark.parametrize(
    ("view", "different"),
    [
        pytest.param(
            seen(plane(spec=REACHED), *three()[:2], (MANAGER, component(MANAGER, ready=False, conditions=[NO_TEMPLATE]))),
            {
                "Ready": ("False", "NoTemplates", "NestedControllerManager my-controller-manager is not ready: there is no channel x"),
                "ControllerManagerAvailable": ("False", "NoTemplates", "NestedControllerManager my-controller-manager is not ready: there is no channel x"),
                "UpToDate": ("False", "NotUpToDate", "NestedControllerManager my-controller-manager: not all of it runs as the spec says"),
            },
            id="without a controller manager it is available",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:]),
            {
                "Ready": ("False", "ComponentMissing", "there is no NestedEtcd my-etcd"),
                "Available": ("False", "ComponentMissing", "there is no NestedEtcd my-etcd"),
                "EtcdAvailable": ("False", "ComponentMissing", "there is no NestedEtcd my-etcd"),
            },
            id="a component is not there",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, by="other"))),
            {
                "Ready": ("False", "ComponentConflict", "NestedEtcd my-etcd cannot be part of it: NestedControlPlane other controls it"),
                "Available": ("False", "ComponentConflict", "NestedEtcd my-etcd cannot be part of it: NestedControlPlane other controls it"),
                "EtcdAvailable": ("False", "ComponentConflict", "NestedEtcd my-etcd cannot be part of it: NestedControlPlane other controls it"),
                "ComponentConflict": ("True", "ComponentConflict", "NestedEtcd my-etcd: NestedControlPlane other controls it"),
            },
            id="a component is another's",
        ),
        pytest.param(
            seen(plane(spec=REACHED), kubeconfig=False),
            dict.fromkeys(
                ("Ready", "KubeconfigAvailable"),
                ("False", "WaitingForKubeconfig", "there is no Secret demo-kubeconfig yet"),
            ),
            id="there is no kubeconfig",
        ),
        pytest.param(
            seen(plane()),
            {
                "EndpointAvailable": ("False", "WaitingForEndpoint", "its endpoint is not known yet"),
                "Available": ("False", "WaitingForEndpoint", "its endpoint is not known yet"),
            },
            id="its endpoint is not known",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, conditions=[NO_CERTIFICATE]))),
            {"CertificatesAvailable": ("False", "WaitingForCertificates", "Secret c is bad")},
            id="a certificate is bad",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, conditions=[condition("CertificatesReady", "True")]))),
            {"CertificatesAvailable": GOOD},
            id="certificates are there",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, observedGeneration=1))),
            {"UpToDate": ("False", "NotUpToDate", "NestedEtcd my-etcd: not all of it runs as the spec says")},
            id="a spec was not looked at yet",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, observedGeneration=0, updatedReplicas=0))),
            {},
            id="another program provisions etcd and says little of it",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, conditions=[REFUSED]))),
            {"UpToDate": ("False", "NotUpToDate", "NestedEtcd my-etcd: the flag x is set by the controller")},
            id="a flag is refused, and what runs answers",
        ),
        pytest.param(
            seen(plane(spec=REACHED), *three()[1:], (ETCD, component(ETCD, conditions=[ROLLS]))),
            {
                "UpToDate": ("False", "NotUpToDate", "NestedEtcd my-etcd: one of three"),
                "RollingOut": ("True", "RollingOut", "NestedEtcd my-etcd"),
            },
            id="instances are replaced, and enough answer",
        ),
    ],
)  # fmt: skip
def test_conditions_say_what_is_not_so(view, different):
    assert said(view) == ALL_GOOD | different


@pytest.mark.parametrize(("reason", "about"), [("RollingOut", "RollingOut"), ("Sleeping", "Sleeping")])
def test_what_holds_for_one_component_is_told_while_it_holds(reason, about):
    asleep = component(ETCD, ready=False, conditions=[condition("Ready", reason=reason, message="m")])
    view = seen(plane(spec=REACHED), *three()[1:], (ETCD, asleep))
    assert said(view)[about] == ("True", reason, "NestedEtcd my-etcd")
    before = status_of(view)
    after = said(seen(structs.replace(plane(spec=REACHED), status=before)))
    assert after == ALL_GOOD


def test_conditions_of_others_stay():
    theirs = [condition("Theirs", "True")]
    assert said(seen(plane(spec=REACHED, status={"conditions": theirs})))["Theirs"] == GOOD


def test_an_equal_view_writes_nothing_new_a_day_later():
    view = seen(plane(spec=REACHED))
    status = status_of(view)
    again = Seen(
        Family(structs.replace(view.family.plane, status=status), None, view.family.components),
        NOW + timedelta(days=1),
        kubeconfig=True,
        owned=view.owned,
    )
    assert status_of(again) == status


def test_events_tell_what_changed():
    up, down = status_of(seen(plane(spec=REACHED))), status_of(seen(plane(), *three()[1:]))
    conflict = status_of(seen(plane(), *three()[1:], (ETCD, component(ETCD, by="other"))))
    assert [(each.reason, each.warning) for each in events_of(down, up)] == [("Ready", False)]
    assert [(each.reason, each.message) for each in events_of(up, down)] == [
        ("NotReady", "there is no NestedEtcd my-etcd")
    ]
    assert [each.reason for each in events_of(down, conflict)] == ["ComponentConflict"]
    assert list(events_of(conflict, conflict)) == []


def test_an_owner_is_the_very_object():
    """One of the same name that is gone does not count: what it controlled is the garbage collector's."""
    old = structs.replace(
        component(ETCD),
        metadata=structs.replace(
            component(ETCD).metadata,
            owner_references=(
                OwnerReference(api_version=API_VERSION, kind="NestedControlPlane", name="demo", uid="old", controller=True),
            ),
        ),
    )  # fmt: skip
    view = seen(plane(), (ETCD, old))
    assert decide(view).steps == ()
    assert said(view)["EtcdAvailable"][1] == "ComponentConflict"


COMING = NestedControlPlaneStatus(
    conditions=(false_condition("Ready", "Provisioning", INFO, "NestedEtcd my-etcd starts"),)
)


def with_condition(*found):
    return structs.replace(COMING, conditions=(*COMING.conditions, *found))


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        pytest.param(COMING, structs.replace(COMING, replicas=1, observed_generation=2), True, id="an instance has started"),
        pytest.param(COMING, with_condition(true_condition("EtcdAvailable")), True, id="a component is ready"),
        pytest.param(NestedControlPlaneStatus(), COMING, True, id="it was just made"),
        pytest.param(COMING, structs.replace(COMING, ready=True), False, id="it is ready"),
        pytest.param(structs.replace(COMING, ready=True), COMING, False, id="it is not ready any more"),
        pytest.param(COMING, structs.replace(COMING, initialized=True), False, id="its API server has answered"),
        pytest.param(COMING, structs.replace(COMING, asleep=True), False, id="its components are to end"),
        pytest.param(COMING, structs.replace(COMING, etcd=EtcdStatus()), False, id="where its etcd is"),
        pytest.param(COMING, with_condition(true_condition("Paused")), False, id="it is paused"),
        pytest.param(with_condition(true_condition("Deleting")), COMING, False, id="what held does not any more"),
        pytest.param(COMING, with_condition(false_condition("EtcdAvailable", "X", ERROR, "no")), False, id="an error"),
    ],
)  # fmt: skip
def test_a_status_that_only_says_what_is_waited_for_waits_itself(before, after, waits):
    assert underway(before, after) is waits


@pytest.mark.parametrize(
    ("view", "waits"),
    [
        pytest.param(seen(), [], id="nothing"),
        pytest.param(
            seen(plane(), *three()[:2]),
            ["NestedControllerManager my-controller-manager"],
            id="a component that is not there",
        ),
        pytest.param(seen(plane(), kubeconfig=False), ["Secret demo-kubeconfig"], id="a kubeconfig"),
        pytest.param(seen(problem="no"), ["a spec without mistakes"], id="a user"),
        pytest.param(seen(plane(deleting=True)), ["my-controller-manager to be deleted"], id="an end"),
    ],
)
def test_a_control_plane_names_what_it_waits_for(view, waits):
    plan = decide(view)
    assert [each.what for each in plan.awaits] == waits
    assert all(each.remedy for each in plan.awaits)
