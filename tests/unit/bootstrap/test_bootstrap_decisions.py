"""What is decided about a KubeadmConfig, rung by rung."""

from dataclasses import replace
from datetime import timedelta

import pytest
import yaml
from msgspec import structs

from kubewright.api.bootstrap.names import JOIN_FILE
from kubewright.api.bootstrap.parts import SecretKey, SecretSource
from kubewright.api.bootstrap.v1beta1 import (
    BootstrapTokenDiscovery,
    ClusterConfiguration,
    Discovery,
    File,
    FileDiscovery,
    InitConfiguration,
    JoinConfiguration,
    JoinControlPlane,
    KubeadmConfigStatus,
    NodeRegistration,
    User,
)
from kubewright.api.cluster.v1beta1 import (
    Bootstrap,
    ClusterNetwork,
    ClusterStatus,
    Machine,
    NetworkRanges,
    ObjectReference,
)
from kubewright.api.core import Secret, Taint
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.delays import UNHEARD
from kubewright.base.plan import AT_ONCE
from kubewright.bootstrap.decide import decide, failed, makes_data
from kubewright.bootstrap.lock import Lock
from kubewright.bootstrap.seen import (
    DataSeen,
    KeepToken,
    MakeCertificates,
    OwnData,
    PatchSpec,
    Plan,
    ReleaseLock,
    Seen,
    TokenSeen,
    WriteData,
)
from kubewright.bootstrap.tokens import token_in_data
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import KeyPair

from .scenes import (
    DATA,
    JOIN,
    NOW,
    PAIRS,
    TOKEN,
    TTL,
    cluster,
    first,
    given_data,
    holding,
    joining,
    machine,
    ready,
    with_spec,
)

FIVE_MINUTES = TTL / 3


def given_lost_data() -> Machine:
    return machine(control_plane=True, bootstrap=Bootstrap(data_secret_name="m"))


def said(plan: Plan) -> list[str]:
    """The conditions of a plan's report, in short."""
    conditions = plan.report.conditions if plan.report is not None else ()
    return [
        " ".join(filter(None, (each.type, each.status, each.reason, each.severity))) for each in conditions
    ]


def message(plan: Plan) -> str:
    assert plan.report is not None
    return plan.report.conditions[0].message


def kinds(plan: Plan) -> list[str]:
    return [type(step).__name__ for step in plan.steps]


def respec(seen: Seen, **spec) -> Seen:
    return replace(seen, config=with_spec(seen.config, structs.replace(seen.config.spec, **spec)))


def restatus(seen: Seen, **status) -> Seen:
    return replace(seen, config=structs.replace(seen.config, status=KubeadmConfigStatus(**status)))


def remeta(seen: Seen, **meta) -> Seen:
    changed = structs.replace(seen.config.metadata, **meta)
    return replace(seen, config=structs.replace(seen.config, metadata=changed))


OF_CLUSTER = {"cluster.x-k8s.io/cluster-name": "c"}
OURS = "cluster.x-k8s.io/secret"


def data(*, by: tuple[str, str] | None = None, labels: dict = OF_CLUSTER, kind: str = OURS) -> Secret:
    """A Secret with the name of the data; ``by``: kind and name of what controls it."""
    owners = ()
    if by is not None:
        owners = (OwnerReference(api_version="v1", kind=by[0], name=by[1], uid="x", controller=True),)
    meta = structs.replace(DATA.metadata, owner_references=owners, labels=labels)
    return structs.replace(DATA, metadata=meta, type=kind)


MOVED = data(by=("KubeadmConfig", "m"))
PAUSED = structs.replace(cluster(), spec=structs.replace(cluster().spec, paused=True))


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        pytest.param(first(machine=None, cluster=None), "no Machine owns it yet", id="no machine"),
        pytest.param(remeta(first(cluster=None), annotations={"cluster.x-k8s.io/paused": ""}), "there is no Cluster c", id="paused without a cluster"),
        pytest.param(remeta(first(), deletion_timestamp=NOW), "it is being deleted", id="deleted"),
        pytest.param(remeta(first(), annotations={"cluster.x-k8s.io/paused": ""}), "it is paused", id="paused itself"),
        pytest.param(first(cluster=PAUSED), "it is paused", id="paused with its cluster"),
        pytest.param(restatus(first(), failure_message="x"), "status.failureReason says that it has failed", id="failed"),
        pytest.param(restatus(first(), ready=True, data_secret_name="m"), "the data is there", id="an init machine with data"),
        pytest.param(ready(machine=structs.replace(machine(control_plane=False), metadata=ObjectMeta(name="m", deletion_timestamp=NOW))), "the data is there", id="a machine that goes needs no token"),
        pytest.param(respec(ready(), join_configuration=JoinConfiguration(discovery=Discovery(file=FileDiscovery(kube_config_path="/k")))), "the data is there", id="a machine that joins by a file has no token"),
        pytest.param(restatus(ready(), ready=True, data_secret_name="users-own"), "the data is there", id="data of a user's own has no token of ours"),
        pytest.param(ready(machine=structs.replace(machine(control_plane=False), status=structs.replace(machine(control_plane=False).status, node_ref=ObjectReference(name="m")))), "the machine has joined", id="a machine with a node needs no token"),
    ],
)  # fmt: skip
def test_nothing_is_done_for(seen: Seen, because: str) -> None:
    assert replace(decide(seen), awaits=()) == Plan(because=because)
    assert not makes_data(seen)


def test_a_cluster_without_infrastructure_is_waited_for() -> None:
    bare = structs.replace(cluster(), status=ClusterStatus())
    plan = decide(first(cluster=bare))
    assert said(plan) == ["DataSecretAvailable False WaitingForClusterInfrastructure Info"]
    assert (plan.steps, plan.wake) == ((), None)


@pytest.mark.parametrize("name", ["m", "users-own"])
def test_a_lost_status_is_made_again_from_the_machine(name: str) -> None:
    plan = decide(joining(machine=given_data(name), pairs={}))
    assert (plan.steps, said(plan)) == ((), ["DataSecretAvailable True"])
    assert plan.report is not None
    assert plan.report.data_secret == name


def test_after_a_move_the_status_says_of_certificates_what_it_said_before() -> None:
    plan = decide(joining(machine=given_data("m"), secret=DATA, pairs={}))
    assert (plan.steps, said(plan)) == ((), ["DataSecretAvailable True", "CertificatesAvailable True"])


def test_data_that_was_written_before_a_crash_is_not_made_again() -> None:
    plan = decide(joining(secret=DATA, pairs={}))
    assert (plan.steps, said(plan)) == ((), ["DataSecretAvailable True", "CertificatesAvailable True"])


@pytest.mark.parametrize("secret", [MOVED, data()], ids=["an old uid", "no owner, as from a backup"])
def test_data_that_has_lost_its_owner_is_taken_over_and_written_anew(secret: Secret) -> None:
    plan = decide(joining(secret=secret))
    assert kinds(plan) == ["OwnData", "WriteData"]
    assert plan.steps[0] == OwnData()


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (data(by=("ConfigMap", "x")), "ConfigMap x controls it"),
        (data(by=("KubeadmConfig", "other")), "KubeadmConfig other controls it"),
        (
            data(labels={"cluster.x-k8s.io/cluster-name": "d"}),
            "its label cluster.x-k8s.io/cluster-name is 'd'",
        ),
        (data(kind="Opaque"), "it has no owner, and its type is not cluster.x-k8s.io/secret"),
    ],
    ids=["another's", "another machine's", "of another cluster", "a user's own"],
)
def test_a_secret_of_another_is_neither_owned_nor_written_and_told_of(secret: Secret, why: str) -> None:
    plan = decide(joining(secret=secret))
    assert (plan.steps, said(plan)) == ((), ["DataSecretAvailable False DataSecretGenerationFailed Warning"])
    assert message(plan) == f"Secret m is there and is not of this KubeadmConfig: {why}"
    assert not makes_data(joining(secret=secret))


def test_a_machine_whose_data_is_there_loses_nothing_by_a_secret_of_another() -> None:
    assert decide(ready(secret=data(by=("ConfigMap", "x")))).wake == FIVE_MINUTES


def test_a_secret_without_a_value_is_written() -> None:
    assert kinds(decide(joining(secret=structs.replace(DATA, data={})))) == ["WriteData"]


def test_a_moved_secret_is_owned_again_beside_the_rest() -> None:
    plan = decide(ready(secret=MOVED))
    assert (kinds(plan), plan.wake) == (["OwnData"], FIVE_MINUTES)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(first(machine=machine(control_plane=False)), "the control plane of Cluster c is not initialized yet; see the Cluster's condition ControlPlaneInitialized", id="a worker"),
        pytest.param(respec(first(), cluster_configuration=None, init_configuration=None), "spec has no initConfiguration and no clusterConfiguration, so another machine must initialize the control plane of Cluster c; see the Cluster's condition ControlPlaneInitialized", id="a control plane machine that can only join"),
        pytest.param(first(lock=Lock("lock", "other", holder_exists=True)), "Machine other initializes the control plane; see its conditions; when it is deleted another one begins", id="another machine has the lock"),
    ],
)  # fmt: skip
def test_before_the_cluster_is_initialized_this_waits_without_asking(seen: Seen, told: str) -> None:
    plan = decide(seen)
    assert said(plan) == ["DataSecretAvailable False WaitingForControlPlaneAvailable Info"]
    assert (message(plan), plan.steps, plan.wake) == (told, (), None)


def test_a_lock_that_says_nothing_is_reported() -> None:
    plan = decide(first(lock=Lock("lock", "", holder_exists=False)))
    assert said(plan) == ["DataSecretAvailable False DataSecretGenerationFailed Warning"]
    assert "ConfigMap c-lock does not say which machine holds the init lock" in message(plan)


NO_DATA = (failed("the API server refuses to delete the init lock: 403 Forbidden"),)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(ready(), id="a machine that may boot"),
        pytest.param(ready(token=TokenSeen(next=NOW)), id="one whose token is looked at"),
        pytest.param(ready(secret=MOVED), id="one whose Secret had lost its owner"),
        pytest.param(restatus(first(secret=DATA), ready=True, data_secret_name="m"), id="the first machine"),
    ],
)
def test_what_was_refused_beside_data_that_are_there_is_not_told_for_ever(seen: Seen) -> None:
    wrong = structs.replace(seen.config.status, conditions=NO_DATA)
    plan = decide(replace(seen, config=structs.replace(seen.config, status=wrong)))
    assert said(plan) == ["DataSecretAvailable True"]
    assert plan.report.data_secret == "m"
    assert (plan.steps, plan.wake, plan.because) == (
        decide(seen).steps,
        decide(seen).wake,
        decide(seen).because,
    )


def test_a_secret_that_is_gone_after_its_vm_was_made_is_not_called_available() -> None:
    joined = machine(control_plane=False, provider_id="sim:///1")
    seen = ready(secret=None, machine=joined, data=DataSeen(made=False, token=TOKEN))
    wrong = structs.replace(seen.config.status, conditions=NO_DATA)
    plan = decide(replace(seen, config=structs.replace(seen.config, status=wrong)))
    assert (plan.because, plan.report) == ("the machine may still boot", None)


def test_the_lock_of_a_machine_that_is_gone_is_released_and_taken_next() -> None:
    plan = decide(first(lock=Lock("lock", "gone", holder_exists=False)))
    assert (plan.steps, plan.wake) == ((ReleaseLock("lock"),), AT_ONCE)


def test_the_first_machine_makes_what_is_missing_of_the_certificates() -> None:
    kept = {purpose: PAIRS[purpose] for purpose in (Purpose.CA, Purpose.SERVICE_ACCOUNT)}
    plan = decide(first(pairs=kept))
    assert plan.steps == (MakeCertificates((Purpose.ETCD, Purpose.FRONT_PROXY)),)
    assert plan.wake == AT_ONCE


def test_who_runs_the_control_plane_makes_its_certificates() -> None:
    plan = decide(first(cluster=cluster(control_plane_ref=ObjectReference(kind="X", name="x")), pairs={}))
    assert said(plan) == [
        "CertificatesAvailable False CertificatesGenerationFailed Warning",
        "DataSecretAvailable False CertificatesGenerationFailed Warning",
    ]
    assert message(plan) == "waits for Secret c-ca, c-etcd, c-proxy, c-sa"
    assert (plan.steps, plan.wake) == ((), UNHEARD)


def test_bad_certificates_are_told_and_never_replaced() -> None:
    bad = {**PAIRS, Purpose.CA: KeyPair(b"x", b"x")}
    plan = decide(first(pairs=bad))
    assert said(plan) == [
        "CertificatesAvailable False CertificatesCorrupted Error",
        "DataSecretAvailable False CertificatesCorrupted Error",
    ]
    assert plan.steps == ()


def test_the_lock_is_taken_when_the_data_could_be_written() -> None:
    plan = decide(first())
    assert (kinds(plan), plan.wake) == (["TakeLock", "PatchSpec", "WriteData"], None)


def test_a_lock_that_was_given_up_is_left_to_others_for_a_while() -> None:
    plan = decide(first(yields_until=NOW + FIVE_MINUTES))
    assert (plan.steps, plan.wake, plan.report) == ((), FIVE_MINUTES, None)
    assert kinds(decide(first(yields_until=NOW)))[0] == "TakeLock"
    assert kinds(decide(holding(yields_until=NOW + FIVE_MINUTES)))[-1] == "WriteData"


@pytest.mark.parametrize(
    ("seen", "given_up"),
    [
        pytest.param(first(), (), id="it is taken in this pass"),
        pytest.param(holding(), (ReleaseLock("lock"),), id="it was taken before"),
        pytest.param(holding(machine=given_lost_data(), data=DataSeen(made=False)), (), id="a VM may initialize the cluster"),
        pytest.param(joining(), (), id="a worker has none"),
    ],
)  # fmt: skip
def test_the_lock_is_given_up_when_the_data_are_refused(
    seen: Seen, given_up: tuple[ReleaseLock, ...]
) -> None:
    plan = decide(seen)
    assert (kinds(plan)[-1], plan.unless_done) == ("WriteData", given_up)


def written(plan: Plan) -> dict:
    step = plan.steps[-1]
    assert isinstance(step, WriteData)
    assert step.format == "cloud-config"
    return yaml.safe_load(step.text)


def documents(plan: Plan, path: str) -> list[dict]:
    file = next(each for each in written(plan)["write_files"] if each["path"] == path)
    return list(yaml.safe_load_all(file["content"]))


def test_the_first_machine_gets_what_cluster_and_machine_know() -> None:
    network = ClusterNetwork(
        services=NetworkRanges(cidr_blocks=("10.0.0.0/16", "fd00::/108")),
        pods=NetworkRanges(cidr_blocks=("10.1.0.0/16",)),
        service_domain="x.local",
    )
    plan = decide(holding(cluster=cluster(cluster_network=network)))
    assert kinds(plan) == ["PatchSpec", "WriteData"]
    assert said(plan) == ["DataSecretAvailable True", "CertificatesAvailable True"]
    assert plan.wake is None
    found, init = documents(plan, "/run/kubeadm/kubeadm.yaml")
    assert found == {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": "c",
        "controlPlaneEndpoint": "h:6443",
        "kubernetesVersion": "v1.31.0",
        "networking": {
            "serviceSubnet": "10.0.0.0/16,fd00::/108",
            "podSubnet": "10.1.0.0/16",
            "dnsDomain": "x.local",
        },
    }
    assert init["nodeRegistration"] == {"imagePullPolicy": "IfNotPresent"}
    assert written(plan)["write_files"][0]["path"] == "/etc/kubernetes/pki/ca.crt"
    patch = plan.steps[0]
    assert isinstance(patch, PatchSpec)
    assert patch.spec.cluster_configuration.cluster_name == "c"
    assert patch.spec.init_configuration == InitConfiguration(), "defaults are not written back"


def test_what_a_user_says_about_the_cluster_stays() -> None:
    own = ClusterConfiguration(cluster_name="x", control_plane_endpoint="y:1", kubernetes_version="v1.30.0")
    plan = decide(respec(holding(), cluster_configuration=own))
    assert kinds(plan) == ["WriteData"]


def test_a_worker_joins_with_a_taint_that_is_not_written_back() -> None:
    plan = decide(joining())
    assert kinds(plan) == ["WriteData"]
    (join,) = documents(plan, "/run/kubeadm/kubeadm-join-config.yaml")
    assert join["nodeRegistration"]["taints"] == [
        {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
    ]
    assert join["discovery"]["bootstrapToken"]["token"] == TOKEN.text
    assert written(plan)["write_files"][0]["path"] == "/run/kubeadm/kubeadm-join-config.yaml"
    assert plan.wake == FIVE_MINUTES


@pytest.mark.parametrize(
    ("given", "taints"),
    [
        pytest.param((), ["node.cluster.x-k8s.io/uninitialized"], id="no taints"),
        pytest.param((Taint(key="a", effect="NoSchedule"),), ["a", "node.cluster.x-k8s.io/uninitialized"], id="others"),
        pytest.param((Taint(key="node.cluster.x-k8s.io/uninitialized", effect="NoSchedule"),), ["node.cluster.x-k8s.io/uninitialized"], id="the same"),
    ],
)  # fmt: skip
def test_the_taint_of_a_worker_comes_once_beside_others(given: tuple[Taint, ...], taints: list[str]) -> None:
    join = structs.replace(JOIN, node_registration=NodeRegistration(taints=given))
    (found,) = documents(
        decide(respec(joining(), join_configuration=join)), "/run/kubeadm/kubeadm-join-config.yaml"
    )
    assert [each["key"] for each in found["nodeRegistration"]["taints"]] == taints


def test_a_control_plane_machine_joins_with_certificates_and_kubeadms_own_taint() -> None:
    join = structs.replace(JOIN, control_plane=JoinControlPlane())
    plan = decide(respec(joining(control_plane=True), join_configuration=join))
    assert kinds(plan) == ["WriteData"]
    (found,) = documents(plan, "/run/kubeadm/kubeadm-join-config.yaml")
    assert "controlPlane" in found
    assert "taints" not in found["nodeRegistration"]
    assert written(plan)["write_files"][1]["path"] == "/etc/kubernetes/pki/ca.key"


def test_how_to_join_is_on_record_before_the_cluster_knows_the_token() -> None:
    plan = decide(respec(joining(token=TokenSeen()), join_configuration=None))
    assert (kinds(plan), plan.wake) == (["PatchSpec", "KeepToken"], None)
    assert plan.steps[1] == KeepToken(TOKEN)
    patch = plan.steps[0]
    assert isinstance(patch, PatchSpec)
    assert patch.spec.join_configuration == JOIN


def test_how_to_join_is_on_record_while_the_cluster_is_not_reached() -> None:
    apart = TokenSeen(next=NOW + FIVE_MINUTES, problem="cluster ns/c is not connected")
    plan = decide(respec(joining(token=apart), join_configuration=None))
    assert (kinds(plan), plan.wake) == (["PatchSpec"], FIVE_MINUTES)
    assert message(plan) == "no bootstrap token yet: cluster ns/c is not connected"


def test_a_control_plane_machine_is_marked_as_one() -> None:
    plan = decide(joining(control_plane=True))
    patch = plan.steps[0]
    assert isinstance(patch, PatchSpec)
    assert patch.spec.join_configuration.control_plane == JoinControlPlane()


def test_the_token_is_made_before_the_data() -> None:
    plan = decide(joining(token=TokenSeen()))
    assert (plan.steps, plan.report, plan.wake) == ((KeepToken(TOKEN),), None, None)


def test_while_the_token_is_made_nothing_else_is() -> None:
    plan = decide(joining(token=TokenSeen(running=True)))
    assert (plan.steps, plan.report) == ((), None)


def test_a_cluster_that_does_not_answer_is_reported_and_asked_again() -> None:
    problem = TokenSeen(problem="cluster n/c is not connected", next=NOW + timedelta(seconds=7))
    plan = decide(joining(token=problem))
    assert said(plan) == ["DataSecretAvailable False WaitingForControlPlaneAvailable Info"]
    assert message(plan) == "no bootstrap token yet: cluster n/c is not connected"
    assert (plan.steps, plan.wake) == ((), timedelta(seconds=7))


def test_a_machine_that_joins_by_a_file_needs_no_token_and_no_endpoint() -> None:
    join = JoinConfiguration(discovery=Discovery(file=FileDiscovery(kube_config_path="/k")))
    seen = respec(joining(token=TokenSeen(), cluster=structs.replace(joining().cluster, spec=structs.replace(joining().cluster.spec, control_plane_endpoint=None))), join_configuration=join)  # fmt: skip
    plan = decide(seen)
    assert (kinds(plan), plan.wake) == (["WriteData"], None)


def test_without_an_endpoint_a_machine_cannot_join_yet() -> None:
    bare = structs.replace(
        joining().cluster, spec=structs.replace(cluster().spec, control_plane_endpoint=None)
    )
    plan = decide(respec(joining(cluster=bare), join_configuration=None))
    assert said(plan) == ["DataSecretAvailable False WaitingForControlPlaneAvailable Info"]
    assert (
        message(plan)
        == "Cluster c has no spec.controlPlaneEndpoint yet; set it, or see the Cluster's infrastructure"
    )


def test_a_cluster_without_certificates_cannot_be_joined() -> None:
    plan = decide(joining(pairs={}))
    assert said(plan) == [
        "CertificatesAvailable False CertificatesCorrupted Error",
        "DataSecretAvailable False CertificatesCorrupted Error",
    ]
    assert (message(plan), plan.wake) == ("waits for Secret c-ca", UNHEARD)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(respec(joining(), join_configuration=structs.replace(JOIN, control_plane=JoinControlPlane())), "the Machine is a worker, but spec.joinConfiguration.controlPlane is set", id="a worker that would be a control plane"),
        pytest.param(respec(joining(), join_configuration=JoinConfiguration(discovery=Discovery(bootstrap_token=BootstrapTokenDiscovery(token="s3cr3t")))), "spec.joinConfiguration.discovery.bootstrapToken.token is no token: id.secret", id="a token that is none"),
        pytest.param(joining(machine=machine(control_plane=False, version=None)), "Machine m has no spec.version", id="no version"),
        pytest.param(joining(machine=machine(control_plane=False, version="v1.9.0")), "Kubernetes v1.9.0 is older than v1.15.0, the oldest that can be bootstrapped", id="a version that is too old"),
        pytest.param(joining(machine=machine(control_plane=False, version="new")), "Kubernetes version 'new' is not a version such as v1.31.0", id="a version that is none"),
        pytest.param(respec(joining(), files=(File(path="/a"), File(path="/a"))), 'spec.files[1].path: Invalid value: "/a": path property must be unique among all files', id="what admission would refuse"),
        pytest.param(respec(joining(), files=(File(path="/a", content_from=SecretSource(secret=SecretKey(name="s", key="k"))),)), "Secret s for file /a does not exist", id="a missing Secret"),
        pytest.param(respec(joining(sources={"s": Secret()}), files=(File(path="/a", content_from=SecretSource(secret=SecretKey(name="s", key="k"))),)), "Secret s for file /a has no key k", id="a missing key"),
        pytest.param(respec(joining(sources={"s": Secret(data={"k": b"\xff"})}), users=(User(name="u", passwd_from=SecretSource(secret=SecretKey(name="s", key="k"))),)), "Secret s for the password of user u is no text; encode it in base64", id="bytes that are no text"),
    ],
)  # fmt: skip
def test_bad_input_is_reported_where_it_is_wrong(seen: Seen, told: str) -> None:
    plan = decide(seen)
    assert said(plan) == ["DataSecretAvailable False DataSecretGenerationFailed Warning"]
    assert (message(plan), plan.steps) == (told, ())


def test_a_machine_that_cannot_go_on_lets_others_be_the_first() -> None:
    plan = decide(respec(holding(), files=(File(path="/a"), File(path="/a"))))
    assert plan.steps == (ReleaseLock("lock"),)


LOST = replace(
    holding(data=DataSeen(made=False)),
    config=structs.replace(first().config, status=KubeadmConfigStatus(ready=True, data_secret_name="m")),
)
"""The first machine, whose data are gone after they were handed out: a VM may be in the making with them."""


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(respec(LOST, files=(File(path="/x", content_from=SecretSource()),)), id="a bad spec"),
        pytest.param(
            respec(
                LOST,
                files=(File(path="/x", content_from=SecretSource(secret=SecretKey(name="gone", key="k"))),),
            ),
            id="a source that is gone",
        ),
        pytest.param(replace(LOST, secret=data(labels={})), id="a Secret of another"),
        pytest.param(replace(LOST, pairs={}), id="no certificates"),
        pytest.param(replace(LOST, pairs={**PAIRS, Purpose.CA: KeyPair(b"x", b"x")}), id="bad certificates"),
        pytest.param(
            replace(
                LOST,
                config=first().config,
                machine=machine(control_plane=True, bootstrap=Bootstrap(data_secret_name="m")),
                pairs={},
            ),
            id="the status is lost too",
        ),
    ],
)
def test_who_was_handed_the_data_of_the_first_machine_stays_the_first(seen: Seen) -> None:
    plan = decide(seen)
    assert plan.steps == ()
    assert message(plan)


def test_lost_data_of_the_first_machine_are_made_again_of_what_is_there() -> None:
    assert written(decide(LOST)) == written(decide(holding()))


def test_authorities_that_a_vm_may_use_are_not_made_anew() -> None:
    plan = decide(replace(LOST, pairs={}))
    assert "Secret c-ca" in message(plan)
    assert "backup" in message(plan)


def test_files_and_passwords_come_from_secrets() -> None:
    source = SecretSource(secret=SecretKey(name="s", key="k"))
    seen = respec(
        joining(sources={"s": Secret(data={"k": b"from: the secret"})}),
        files=(File(path="/a", content_from=source),),
        users=(User(name="u", passwd_from=source),),
    )
    found = written(decide(seen))
    assert found["write_files"][0] == {"path": "/a", "content": "from: the secret\n"}
    assert found["users"] == [{"name": "u", "passwd": "from: the secret"}]


def test_ignition_is_written_in_its_own_form() -> None:
    step = decide(respec(joining(), format="ignition")).steps[-1]
    assert isinstance(step, WriteData)
    assert step.format == "ignition"
    assert step.text.startswith('{"ignition":{"version":"2.3.0"}')


@pytest.mark.parametrize(
    ("token", "steps", "wake"),
    [
        pytest.param(TokenSeen(), (KeepToken(TOKEN),), None, id="after a restart it is looked at"),
        pytest.param(TokenSeen(until=NOW + TTL, next=NOW), (KeepToken(TOKEN),), None, id="at its time it is looked at"),
        pytest.param(TokenSeen(until=NOW + TTL, next=NOW + FIVE_MINUTES), (), FIVE_MINUTES, id="before, it is left alone"),
        pytest.param(TokenSeen(running=True), (), None, id="while it is looked at, it is waited for"),
        pytest.param(TokenSeen(problem="x", next=NOW + UNHEARD), (), UNHEARD, id="a failure is tried again later"),
    ],
)  # fmt: skip
def test_a_token_is_kept_while_its_machine_may_boot(
    token: TokenSeen, steps: tuple, wake: timedelta | None
) -> None:
    plan = decide(ready(token=token))
    assert (plan.steps, plan.wake, plan.report) == (steps, wake, None)


@pytest.mark.parametrize(
    ("lock", "steps"),
    [
        pytest.param(Lock("lock", "m", holder_exists=True), (ReleaseLock("lock"),), id="by the machine that has it"),
        pytest.param(Lock("lock", "gone", holder_exists=False), (ReleaseLock("lock"),), id="by any, when its holder is gone"),
        pytest.param(Lock("lock", "other", holder_exists=True), (), id="not by another while its holder is there"),
    ],
)  # fmt: skip
def test_the_lock_is_released_when_the_cluster_is_initialized(lock: Lock, steps: tuple) -> None:
    assert decide(ready(lock=lock)).steps == steps


def test_a_plan_shows_no_secret() -> None:
    shown = repr(decide(respec(joining(), files=(File(path="/a", content="s3cr3t"),))))
    assert "s3cr3t" not in shown
    assert TOKEN.secret not in shown


BARE = structs.replace(cluster(), status=ClusterStatus())
WAITS = {
    "a machine": (first(machine=None, cluster=None), ["a Machine that owns it"]),
    "a Cluster": (first(cluster=None), ["Cluster c"]),
    "infrastructure": (first(cluster=BARE), ["infrastructure of Cluster c"]),
    "a name": (first(secret=data(by=("Machine", "m"))), ["the name of Secret m"]),
    "a control plane": (
        first(machine=machine(control_plane=False)), ["the control plane of Cluster c to be initialized"],
    ),
    "the holder of the lock": (
        first(lock=Lock("lock", "other", holder_exists=True)), ["Machine other to initialize the control plane"],
    ),
    "a lock that nobody holds": (first(lock=Lock("lock", "", holder_exists=False)), ["ConfigMap c-lock to go"]),
    "certificates": (joining(pairs={}), ["Secret c-ca"]),
    "an endpoint": (
        joining(cluster=structs.replace(joining().cluster, spec=structs.replace(cluster().spec, control_plane_endpoint=None)),
                config=structs.replace(joining().config, spec=first().config.spec)),
        ["spec.controlPlaneEndpoint of Cluster c"],
    ),
    "the cluster, for a token": (
        joining(token=TokenSeen(None, NOW + TTL, "it is away")), ["cluster n/c"],
    ),
    "the cluster, for a token that the data have": (ready(token=TokenSeen(NOW, NOW + TTL, "it is away")), ["cluster n/c"]),
    "nothing": (holding(), []),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "waits"), WAITS.values(), ids=WAITS)
def test_what_is_waited_for_is_named_with_what_a_user_can_do(seen: Seen, waits: list[str]) -> None:
    plan = decide(seen)
    assert [each.what for each in plan.awaits] == waits
    assert all(each.remedy for each in plan.awaits)


def test_the_secrets_that_a_spec_names_and_that_are_not_there_are_waited_for() -> None:
    source = SecretSource(secret=SecretKey(name="s", key="k"))
    plan = decide(respec(holding(), files=(File(path="/f", content_from=source),)))
    assert [each.what for each in plan.awaits] == ["Secret s"]


@pytest.mark.parametrize("written_as", ["cloud-config", "ignition"])
@pytest.mark.parametrize("name", ["", "{{ ds.meta_data.local_hostname }}", "{% if a %}\nx\n{% endif %}"])
def test_the_token_of_data_is_that_of_their_join_document_whatever_users_add(
    written_as: str, name: str
) -> None:
    other = "{% if a %}\ndiscovery:\n  bootstrapToken:\n    token: ghijkl.0123456789abcdef\n{% endif %}\n"
    seen = respec(
        joining(),
        format=written_as,
        join_configuration=structs.replace(JOIN, node_registration=NodeRegistration(name=name)),
        files=(
            File(path="/a", content=other),
            File(path="/b", content=f"write_files:\n- path: {JOIN_FILE}\n"),
        ),
        pre_kubeadm_commands=(other,),
    )
    (step,) = (each for each in decide(seen).steps if isinstance(each, WriteData))
    assert token_in_data(step.text) == TOKEN
