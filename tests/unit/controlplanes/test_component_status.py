"""What the status of a component says: ready only when all that its spec asks for runs and is ready."""

from dataclasses import replace

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

from kubewright.api.cluster.conditions import READY
from kubewright.api.cluster.v1beta1 import ApiEndpoint, Condition, ObjectReference
from kubewright.api.controlplane.names import Component, ComponentCondition, Phase
from kubewright.api.controlplane.v1alpha4 import (
    Address,
    NestedAPIServerSpec,
    NestedAPIServerStatus,
    NestedControllerManager,
    NestedControllerManagerStatus,
    NestedEtcdStatus,
)
from kubewright.controlplanes.component.act import events_of
from kubewright.controlplanes.component.policies import CONTROLLER_MANAGER, ETCD
from kubewright.controlplanes.component.seen import Certificates, Seen
from kubewright.controlplanes.component.status import status_of
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import Running, WorkloadAddresses
from kubewright.controlplanes.templates.choice import NoChoice

NEWER = workload("1.37.0")
ASLEEP = api_server(spec=NestedAPIServerSpec(replicas=0))
THREE = api_server(spec=NestedAPIServerSpec(replicas=3))
WAS_READY = api_server(status=NestedAPIServerStatus(phase=Phase.READY, version="1.36.3"))
SILENT = running(instance(ready=False, message="readyz answers 500", restarts=1))

PHASES: dict[str, tuple[Seen, Phase]] = {
    "an instance that runs as the spec wants and is ready": (RUNNING, Phase.READY),
    "a component that no control plane names": (replace(WAITING, family=None, identity=None), Phase.PENDING),
    "one that waits for another": (
        replace(WAITING, family=family(etcd(ready=False))),
        Phase.WAITING_FOR_DEPENDENCY,
    ),
    "one whose certificates are not there yet": (
        replace(WAITING, certificates=Certificates(waiting="Secret demo-ca is not there")),
        Phase.PROVISIONING,
    ),
    "one that was applied and has no instance yet": (
        replace(RUNNING, running=Running((), workload().fingerprint, 1, exists=True)),
        Phase.PROVISIONING,
    ),
    "one whose first instance is not ready yet": (
        replace(RUNNING, running=running(instance(ready=False))),
        Phase.PROVISIONING,
    ),
    "one that was ready and does not answer": (
        replace(RUNNING, component=WAS_READY, running=SILENT),
        Phase.UNREADY,
    ),
    "one that has fewer instances ready than it should": (
        replace(
            RUNNING,
            component=THREE,
            workload=workload(replicas=3),
            running=running(instance(), instance(1), instance(2, ready=False)),
        ),
        Phase.PROVISIONING,
    ),
    "one whose endpoint is closed": (
        replace(RUNNING, running=replace(RUNNING.running, closed="the balancer does not listen yet")),
        Phase.PROVISIONING,
    ),
    "one that ran beside a second instance, which ends": (
        replace(
            RUNNING,
            component=WAS_READY,
            addresses=WorkloadAddresses(surges=True),
            running=running(instance(), instance(1, ready=False, ending=True)),
        ),
        Phase.UPGRADING,
    ),
    "one whose instances run with other settings": (replace(RUNNING, workload=NEWER), Phase.UPGRADING),
    "one without instances because its spec says so": (
        replace(WAITING, component=ASLEEP, workload=workload(replicas=0)),
        Phase.SLEEPING,
    ),
    "one that ends its last instance to sleep": (
        replace(RUNNING, component=ASLEEP, workload=workload(replicas=0)),
        Phase.SLEEPING,
    ),
    "one without templates": (replace(WAITING, choice=NoChoice("there is no channel fast")), Phase.FAILED),
    "one that no host can run": (replace(WAITING, unhosted="no program is installed"), Phase.FAILED),
    "one that could not be applied": (replace(WAITING, failed="the disk is full"), Phase.FAILED),
    "one that is being deleted": (
        replace(RUNNING, component=with_meta(api_server(), deletion_timestamp=NOW)),
        Phase.DELETING,
    ),
}


@pytest.mark.parametrize(("seen", "phase"), PHASES.values(), ids=PHASES.keys())
def test_the_phase_of(seen: Seen, phase: Phase) -> None:
    assert status_of(seen).phase == phase


@pytest.mark.parametrize("seen", [each for each, _ in PHASES.values()], ids=PHASES.keys())
def test_ready_is_the_condition_and_up_to_date_the_phase_ready(seen: Seen) -> None:
    status, found = status_of(seen), conditions(seen)
    assert status.ready is (found[READY].status == "True")
    assert (status.phase == Phase.READY) is (found[ComponentCondition.UP_TO_DATE].status == "True")
    assert status.ready or status.phase != Phase.READY


BESIDE = running(instance(), instance(1, of=NEWER, ready=False, message="unknown flag", restarts=3), of=NEWER)


@pytest.mark.parametrize(
    ("seen", "phase", "told"),
    [
        pytest.param(
            replace(RUNNING, rendered=workload(problems=("the flag etcd-servers is refused",)).rendered),
            Phase.FAILED,
            "the flag etcd-servers is refused",
            id="a flag that is refused",
        ),
        pytest.param(
            replace(RUNNING, problem="spec.replicas: Invalid value"),
            Phase.FAILED,
            "spec.replicas: Invalid value",
            id="a spec that breaks the rules",
        ),
        pytest.param(
            replace(RUNNING, choice=NoChoice("there is no channel fast"), workload=None, rendered=None),
            Phase.FAILED,
            "there is no channel fast",
            id="a channel that there is not",
        ),
        pytest.param(replace(RUNNING, unhosted="no program is installed"), Phase.FAILED, "no program is installed", id="no host runs the new version"),
        pytest.param(replace(RUNNING, failed="the disk is full"), Phase.FAILED, "the disk is full", id="it could not be applied"),
        pytest.param(
            replace(RUNNING, workload=NEWER),
            Phase.UPGRADING,
            "instances that run with what the spec says: 0 of 1",
            id="an instance that is replaced later",
        ),
        pytest.param(
            replace(RUNNING, workload=NEWER, running=BESIDE),
            Phase.UPGRADING,
            "instances that run with what the spec says: 1 of 1",
            id="a new one beside it that does not start",
        ),
    ],
)  # fmt: skip
def test_what_answers_is_ready_while_a_user_mends_its_spec(seen: Seen, phase: Phase, told: str) -> None:
    """So machines of its Cluster are made on."""
    status, found = status_of(seen), conditions(seen)
    assert (status.ready, status.phase, found[READY].status) == (True, phase, "True")
    late = found[ComponentCondition.UP_TO_DATE]
    assert (late.status, late.message) == ("False", told)


@pytest.mark.parametrize("seen", [each for each, _ in PHASES.values()], ids=PHASES.keys())
def test_a_pass_that_finds_nothing_new_writes_nothing(seen: Seen) -> None:
    first = status_of(seen)
    again = replace(seen, component=structs.replace(seen.component, status=first))
    settled = status_of(again)
    assert status_of(replace(seen, component=structs.replace(seen.component, status=settled))) == settled


def conditions(seen: Seen) -> dict[str, Condition]:
    return {each.type: each for each in status_of(seen).conditions}


def test_what_is_unknown_because_of_another_component_is_no_error() -> None:
    waits = replace(WAITING, family=family(etcd(ready=False)), rendered=None, unrendered="needs a value")
    ready = replace(waits, family=family(etcd()))
    assert (status_of(waits).errors, status_of(ready).errors) == ((), ("needs a value",))


VERSIONS = {
    "the one that all have": (RUNNING, "1.36.3"),
    "the one before, while the first instance of another is not ready: it can be taken back": (
        replace(
            RUNNING,
            component=WAS_READY,
            workload=NEWER,
            running=running(instance(of=NEWER, ready=False), of=NEWER),
        ),
        "1.36.3",
    ),
    "the one before, while they differ": (
        replace(
            RUNNING,
            component=WAS_READY,
            workload=NEWER,
            running=running(instance(of=NEWER), instance(1), of=NEWER),
        ),
        "1.36.3",
    ),
    "the new one when all are ready with it": (
        replace(RUNNING, component=WAS_READY, workload=NEWER, running=running(instance(of=NEWER), of=NEWER)),
        "1.37.0",
    ),
    "none before the first instance is ready": (
        replace(RUNNING, running=running(instance(ready=False))),
        "",
    ),
    "the one before, while it sleeps": (
        replace(WAITING, component=WAS_READY, running=Running((), "x", 0, exists=True)),
        "1.36.3",
    ),
}


@pytest.mark.parametrize(("seen", "version"), VERSIONS.values(), ids=VERSIONS.keys())
def test_the_version_is(seen: Seen, version: str) -> None:
    assert status_of(seen).version == version


def test_an_api_server_that_runs_stays_ready_while_its_etcd_is_not_and_says_so() -> None:
    found = conditions(replace(RUNNING, family=family(etcd(ready=False))))
    assert (found[READY].status, found[ComponentCondition.DEPENDENCIES_READY].message) == (
        "True",
        "NestedEtcd store is not ready",
    )


def test_an_api_server_that_does_not_answer_names_the_etcd_that_it_lacks() -> None:
    seen = replace(RUNNING, component=WAS_READY, running=SILENT, family=family(etcd(ready=False)))
    assert conditions(seen)[READY].message == (
        "NestedEtcd store is not ready; ready instances: 0 of 1: demo-apiserver-0: readyz answers 500"
    )


def test_a_patch_that_is_for_no_object_is_an_error_and_a_condition() -> None:
    told = "spec.patches[0] is for no object"
    seen = replace(RUNNING, rendered=workload(problems=(told,)).rendered)
    status = status_of(seen)
    about = conditions(seen)[ComponentCondition.PATCHES_APPLIED]
    assert (status.errors, status.healthy, about.message) == ((told,), False, told)


def test_what_is_wrong_with_an_instance_is_told_with_its_name() -> None:
    seen = replace(RUNNING, running=SILENT)
    told = "demo-apiserver-0: readyz answers 500"
    assert status_of(seen).errors == (told,)
    assert told in conditions(seen)[ComponentCondition.WORKLOAD_AVAILABLE].message


def test_an_instance_that_was_asked_to_end_is_no_problem() -> None:
    """Such as a controller manager that has failed once, and starts again with other settings."""
    ends = instance(ready=False, ending=True, message="it was started with other settings", restarts=1)
    seen = replace(RUNNING, component=WAS_READY, workload=NEWER, running=running(ends, of=NEWER))
    status = status_of(seen)
    assert (status.errors, status.phase) == ((), Phase.UPGRADING)
    assert list(events_of(replace(seen, component=WAS_READY).component.status, status)) == []


def test_a_status_counts_instances_and_selects_them() -> None:
    three = running(instance(), instance(1), instance(2, ready=False), of=workload(replicas=3))
    seen = replace(RUNNING, component=THREE, workload=workload(replicas=3), running=three)
    status = status_of(seen)
    assert (status.replicas, status.ready_replicas, status.updated_replicas) == (3, 2, 3)
    assert (status.selector, status.observed_generation) == ("component-name=front", 2)


def test_the_version_is_that_of_all_instances_or_the_one_before() -> None:
    mixed = running(instance(), instance(1, of=NEWER))
    seen = replace(RUNNING, component=WAS_READY, running=mixed)
    assert status_of(seen).version == "1.36.3"
    assert status_of(replace(RUNNING, running=running(instance(of=NEWER)))).version == "1.37.0"


def test_a_controller_manager_has_the_common_status_and_is_ready_while_it_runs() -> None:
    manager = NestedControllerManager(metadata=api_server().metadata)
    running_one = status_of(replace(RUNNING, policy=CONTROLLER_MANAGER, component=manager))
    silent = status_of(replace(RUNNING, policy=CONTROLLER_MANAGER, component=manager, running=SILENT))
    assert isinstance(running_one, NestedControllerManagerStatus)
    assert (running_one.ready, running_one.phase, running_one.version) == (True, Phase.READY, "1.36.3")
    assert (running_one.replicas, running_one.ready_replicas) == (1, 1)
    assert (silent.ready, silent.ready_replicas) == (False, 0)


def test_etcd_says_where_its_members_are() -> None:
    hosts = WorkloadAddresses(("127.3.1.1", "demo-etcd-1.demo-etcd"))
    two = replace(RUNNING.running, replicas=2)
    found = status_of(replace(RUNNING, policy=ETCD, component=etcd(), addresses=hosts, running=two))
    assert isinstance(found, NestedEtcdStatus)
    assert found.addresses == (
        Address(ip="127.3.1.1", port=2379),
        Address(hostname="demo-etcd-1.demo-etcd", port=2379),
    )


def test_what_runs_and_is_ready_is_available_while_it_is_unknown_what_should_run() -> None:
    unknown = replace(RUNNING, choice=NoChoice("there is no such channel"), rendered=None, workload=None)
    assert conditions(unknown)[ComponentCondition.WORKLOAD_AVAILABLE].status == "True"


ELSEWHERE = NestedEtcdStatus(addresses=(Address(ip="127.3.1.1", port=2379),))
SERVED = NestedAPIServerStatus(endpoint=ApiEndpoint(host="127.0.0.1", port=6443))


def test_where_clients_reach_it_stays_while_it_is_not_looked_up() -> None:
    store = status_of(replace(RUNNING, policy=ETCD, component=structs.replace(etcd(), status=ELSEWHERE)))
    front = status_of(replace(RUNNING, component=api_server(status=SERVED)))
    assert isinstance(store, NestedEtcdStatus)
    assert isinstance(front, NestedAPIServerStatus)
    assert (store.addresses, front.endpoint) == (ELSEWHERE.addresses, SERVED.endpoint)


def test_how_many_members_an_etcd_had_stays_known_when_its_workload_was_deleted_by_hand() -> None:
    store = structs.replace(etcd(), status=ELSEWHERE)
    there = WorkloadAddresses(("127.3.1.1",))
    found = status_of(replace(WAITING, policy=ETCD, component=store, addresses=there))
    assert isinstance(found, NestedEtcdStatus)
    assert found.addresses == ELSEWHERE.addresses


def test_an_etcd_that_is_deleted_alone_says_what_uses_it() -> None:
    meta = structs.replace(etcd().metadata, deletion_timestamp=NOW)
    front = api_server(status=NestedAPIServerStatus(replicas=1))
    whole = Family(plane(), components={Component.API_SERVER: front})
    found = status_of(
        replace(RUNNING, policy=ETCD, component=structs.replace(etcd(), metadata=meta), family=whole)
    )
    (told,) = found.errors
    ready = next(each for each in found.conditions if each.type == READY)
    assert told == ready.message
    assert "NestedAPIServer front uses its data" in told
    assert found.phase is Phase.DELETING


def test_an_api_server_names_the_service_by_which_it_is_reached() -> None:
    found = status_of(replace(RUNNING, running=replace(RUNNING.running, service="demo-apiserver")))
    named = ObjectReference(api_version="v1", kind="Service", name="demo-apiserver", namespace="team")
    assert isinstance(found, NestedAPIServerStatus)
    assert found.apiserver_service == named


def test_an_api_server_says_where_it_will_be_before_it_runs() -> None:
    found = status_of(replace(WAITING, addresses=WorkloadAddresses(endpoint=("127.0.0.1", 6443))))
    assert isinstance(found, NestedAPIServerStatus)
    assert found.endpoint == ApiEndpoint(host="127.0.0.1", port=6443)


def test_an_api_server_whose_endpoint_is_closed_is_not_ready_though_its_instances_are() -> None:
    seen = replace(RUNNING, running=replace(RUNNING.running, closed="the balancer does not listen yet"))
    assert (status_of(seen).ready, conditions(seen)[READY].message) == (
        False,
        "the balancer does not listen yet",
    )
