"""The bootstrap provider on an embedded server, with an embedded workload cluster, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from kubewright.api.bootstrap import manifests
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.bootstrap import world as bootstrap
from kubewright.bootstrap.tokens import expiration
from kubewright.pki.facts import public_key_hashes
from kubewright.testing import permissions
from kubewright.testing.faults import Answer, Delay
from kubewright.wire.gvk import Key

from .kit import CLUSTER_KEY, NS, SETTINGS, World, key

CERTIFICATES = ("c-ca", "c-etcd", "c-proxy", "c-sa")
WAITING = ("False", "WaitingForControlPlaneAvailable")
FAILED = ("False", "DataSecretGenerationFailed")
STATUS = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"x","code":403}'
)
FORBIDDEN = Answer(403, STATUS)


def is_token(request) -> bool:
    return "/secrets" in request.path


@pytest.fixture
async def world():
    async with World().running() as made:
        yield made


async def initialized(world: World) -> None:
    """A cluster with one control plane machine that is a node."""
    await world.cluster()
    await world.first()
    await world.said_of_cluster()
    world.workload.connect()
    await world.joined("cp-0")


async def test_the_first_machine_gets_certificates_a_lock_and_its_data(world: World) -> None:
    await world.cluster()
    await world.first()
    config = await world.config("cp-0")
    assert config.status.ready
    assert config.status.data_secret_name == "cp-0"
    assert config.status.observed_generation == config.metadata.generation
    assert {each.type: each.status for each in config.status.conditions} == {
        "Ready": "True",
        "DataSecretAvailable": "True",
        "CertificatesAvailable": "True",
    }
    secret = await world.secret("cp-0")
    assert secret.type == "cluster.x-k8s.io/secret"
    assert secret.metadata.labels == {"cluster.x-k8s.io/cluster-name": "c"}
    assert secret.metadata.controller.uid == config.metadata.uid
    assert secret.data["format"] == b"cloud-config"
    paths = [each["path"] for each in (await world.data("cp-0"))["write_files"]]
    assert paths[0] == "/etc/kubernetes/pki/ca.crt"
    assert "/run/kubeadm/kubeadm.yaml" in paths
    for name in CERTIFICATES:
        made = await world.secret(name)
        assert made.metadata.controller.uid == config.metadata.uid
        assert {each.kind for each in made.metadata.owner_references} == {"KubeadmConfig", "Cluster"}
    lock = await world.lock()
    assert lock.data == {"lock-information": '{"machineName":"cp-0"}'}


async def test_what_is_injected_is_written_back_before_the_data(world: World) -> None:
    await world.cluster(clusterNetwork={"pods": {"cidrBlocks": ["10.1.0.0/16"]}})
    await world.first()
    found = (await world.config("cp-0")).spec.cluster_configuration
    assert (found.cluster_name, found.control_plane_endpoint) == ("c", "10.0.0.1:6443")
    assert (found.kubernetes_version, found.networking.pod_subnet) == ("v1.31.0", "10.1.0.0/16")
    writes = world.writes()
    spec, data, status = (
        writes.index(("PATCH", "kubeadmconfigs/cp-0")),
        len(writes) - 1 - writes[::-1].index(("POST", "secrets")),
        len(writes) - 1 - writes[::-1].index(("PATCH", "kubeadmconfigs/cp-0/status")),
    )
    assert spec < data < status


async def test_a_first_machine_costs_eight_writes(world: World) -> None:
    await world.cluster()
    await world.first()
    assert sorted(world.writes()) == [
        ("PATCH", "kubeadmconfigs/cp-0"),
        ("PATCH", "kubeadmconfigs/cp-0/status"),
        ("POST", "configmaps"),
        *[("POST", "secrets")] * 5,
    ]


async def test_certificates_of_a_users_own_are_never_replaced(world: World) -> None:
    await world.cluster()
    await world.first()
    before = (await world.secret("c-ca")).data
    for kind, name in ((KUBEADM_CONFIG, "cp-0"), (MACHINE, "cp-0"), (SECRET, "cp-0"), (SECRET, "c-etcd")):
        await world.user.delete(kind, key(name))
    await world.first("cp-1")
    assert (await world.secret("c-ca")).data == before
    assert (await world.config("cp-1")).status.ready


async def test_certificates_that_are_made_here_are_not_read_again(world: World) -> None:
    await world.cluster()
    await world.first()
    await world.said_of_cluster()
    await world.machine("w")
    assert (await world.config("cp-0")).status.ready
    asked = [request for _, request in world.line.asked if "/secrets/c-" in request.path]
    assert [request.path for request in asked if request.method == "GET"] == []


async def test_an_authority_without_the_label_is_found_by_its_name(world: World) -> None:
    await world.cluster()
    await world.first()
    mine = (await world.secret("c-ca")).data
    for kind, name in ((MACHINE, "cp-0"), (KUBEADM_CONFIG, "cp-0"), (SECRET, "cp-0"), (SECRET, "c-ca")):
        await world.user.delete(kind, key(name))
    unlabelled = {
        "metadata": {"name": "c-ca"},
        "stringData": {name: each.decode() for name, each in mine.items()},
    }
    await world.user.create(SECRET, unlabelled, namespace=NS)
    await world.first("cp-1")
    assert (await world.config("cp-1")).status.ready
    assert (await world.secret("c-ca")).data == mine
    files = {each["path"]: each["content"] for each in (await world.data("cp-1"))["write_files"]}
    assert files["/etc/kubernetes/pki/ca.crt"].strip() == mine["tls.crt"].decode().strip()


async def test_only_one_machine_is_the_first(world: World) -> None:
    await world.cluster()
    await world.first("cp-0", settle=0)
    await world.first("cp-1", settle=0)
    await world.first("cp-2")
    ready = [name for name in ("cp-0", "cp-1", "cp-2") if (await world.config(name)).status.ready]
    assert len(ready) == 1
    waiting = {"cp-0", "cp-1", "cp-2"} - set(ready)
    for name in waiting:
        status, reason, message = await world.said(name)
        assert (status, reason) == WAITING
        assert message.startswith(f"Machine {ready[0]} initializes the control plane; ")


async def test_the_lock_of_a_machine_that_goes_passes_to_another(world: World) -> None:
    await world.cluster()
    await world.first("cp-0")
    await world.first("cp-1")
    assert not (await world.config("cp-1")).status.ready
    await world.user.delete(MACHINE, key("cp-0"))
    await asyncio.sleep(1)
    assert (await world.config("cp-1")).status.ready
    assert (await world.lock()).data == {"lock-information": '{"machineName":"cp-1"}'}


async def test_the_lock_is_released_when_the_cluster_is_initialized(world: World) -> None:
    await initialized(world)
    assert await world.lock() is None


async def test_a_worker_joins_as_soon_as_the_cluster_is_initialized(world: World) -> None:
    await world.cluster()
    await world.first()
    await world.machine("w")
    told = "the control plane of Cluster c is not initialized yet; see the Cluster's condition ControlPlaneInitialized"
    assert await world.said("w") == (*WAITING, told)
    world.workload.connect()
    await asyncio.sleep(5)
    await world.said_of_cluster()
    assert (await world.config("w")).status.ready


async def test_a_workers_token_is_in_its_spec_its_cluster_and_its_data(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    config = await world.config("w")
    found = config.spec.join_configuration.discovery.bootstrap_token
    assert found.api_server_endpoint == "10.0.0.1:6443"
    assert list(found.ca_cert_hashes) == list(public_key_hashes((await world.secret("c-ca")).data["tls.crt"]))
    ((name, secret),) = (await world.tokens()).items()
    assert found.token == f"{name.removeprefix('bootstrap-token-')}.{secret.data['token-secret'].decode()}"
    files = {each["path"]: each["content"] for each in (await world.data("w"))["write_files"]}
    assert found.token in files["/run/kubeadm/kubeadm-join-config.yaml"]
    assert not config.spec.join_configuration.node_registration.taints, "the taint is in the data only"
    assert "node.cluster.x-k8s.io/uninitialized" in files["/run/kubeadm/kubeadm-join-config.yaml"]


async def test_a_worker_costs_three_writes_here_and_one_there(world: World) -> None:
    await initialized(world)
    before, there = len(world.writes()), len(world.workload.line.asked)
    await world.machine("w")
    assert world.writes()[before:] == [
        ("PATCH", "kubeadmconfigs/w"),
        ("POST", "secrets"),
        ("PATCH", "kubeadmconfigs/w/status"),
    ]
    asked = [request.method for _, request in world.workload.line.asked[there:] if "secrets" in request.path]
    assert asked == ["GET", "POST"]


async def test_a_control_plane_machine_joins_with_certificates(world: World) -> None:
    await initialized(world)
    await world.machine("cp-1", control_plane=True)
    assert (await world.config("cp-1")).spec.join_configuration.control_plane is not None
    paths = [each["path"] for each in (await world.data("cp-1"))["write_files"]]
    assert "/etc/kubernetes/pki/sa.key" in paths
    assert "/run/kubeadm/kubeadm-join-config.yaml" in paths


async def test_a_token_lives_while_its_machine_has_no_node(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    started = world.clock.now()
    await asyncio.sleep(3600)
    (secret,) = (await world.tokens()).values()
    assert expiration(secret) > world.clock.now() + timedelta(minutes=7)
    await world.joined("w")
    await asyncio.sleep(3600)
    (after,) = (await world.tokens()).values()
    assert after.data == secret.data, "a token that was used is not kept"
    assert world.clock.now() > started


async def test_a_token_that_is_lost_is_made_again(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    ((name, secret),) = (await world.tokens()).items()
    await world.workload.client.delete(SECRET, Key("kube-system", name))
    await asyncio.sleep(301)
    ((again, made),) = (await world.tokens()).items()
    assert (again, made.data["token-secret"]) == (name, secret.data["token-secret"])


SPECS = {
    "as it was before its token was filled in": {"joinConfiguration": None},
    "with another token": {
        "joinConfiguration": {"discovery": {"bootstrapToken": {"token": "ghijkl.0123456789abcdef"}}}
    },
    "with another way to find the cluster": {
        "joinConfiguration": {
            "discovery": {"bootstrapToken": None, "file": {"kubeConfigPath": "/kubeconfig"}}
        }
    },
}


@pytest.mark.parametrize("written", ["cloud-config", "ignition"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_the_token_in_the_data_lives_whatever_the_spec_says_by_now(world: World, spec, written) -> None:
    await initialized(world)
    await world.machine("w", spec={"format": written})
    ((name, secret),) = (await world.tokens()).items()
    await world.change(KUBEADM_CONFIG, "w", {"spec": spec})
    await asyncio.sleep(3600)
    ((kept, later),) = (await world.tokens()).items()
    assert kept == name
    assert expiration(later) > world.clock.now() + timedelta(minutes=7)
    async with world.provider(bootstrap.world(SETTINGS)):
        await world.workload.client.delete(SECRET, Key("kube-system", name))
        await asyncio.sleep(301)
    ((again, made),) = (await world.tokens()).items()
    assert (again, made.data["token-secret"]) == (name, secret.data["token-secret"])


LOST = {
    "deleted": lambda world: world.user.delete(SECRET, key("w")),
    "emptied": lambda world: world.user.patch(SECRET, key("w"), {"data": None}),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
async def test_data_that_are_lost_before_there_is_a_vm_are_made_again(world: World, lose) -> None:
    await initialized(world)
    await world.machine("w")
    before = (await world.secret("w")).data
    await world.change(MACHINE, "w", {"spec": {"bootstrap": {"dataSecretName": "w"}}})
    await lose(world)
    await asyncio.sleep(5)
    assert (await world.secret("w")).data == before
    assert len(await world.tokens()) == 1
    assert (await world.said("w"))[0] == "True"
    writes = len(world.writes())
    await asyncio.sleep(600)
    assert world.writes()[writes:] == []


async def test_data_of_the_first_machine_are_made_again_too(world: World) -> None:
    await world.cluster()
    await world.first()
    before = (await world.secret("cp-0")).data
    await world.user.delete(SECRET, key("cp-0"))
    await asyncio.sleep(5)
    assert (await world.secret("cp-0")).data == before


async def test_data_that_are_lost_after_the_vm_was_made_stay_lost(world: World) -> None:
    """Other data would be of no use, and might start what is running already."""
    await initialized(world)
    await world.machine("w")
    await world.has_vm("w")
    await world.user.delete(SECRET, key("w"))
    await asyncio.sleep(600)
    assert await world.gone(SECRET, "w")
    (token,) = (await world.tokens()).values()
    assert expiration(token) > world.clock.now(), "the machine may have read them before"


async def test_data_whose_secret_lost_its_label_are_not_made_again(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    made = await world.secret("w")
    await world.change(SECRET, "w", {"metadata": {"labels": None}})
    await asyncio.sleep(600)
    assert (await world.secret("w")).data == made.data
    assert (await world.secret("w")).metadata.uid == made.metadata.uid


async def test_after_a_restart_the_token_is_kept_on(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    writes = len(world.writes())
    async with world.provider(bootstrap.world(SETTINGS)):
        await asyncio.sleep(3600)
    assert len(await world.tokens()) == 1
    assert world.writes()[writes:] == []


async def test_a_cluster_without_a_session_delays_and_tells(world: World) -> None:
    await world.cluster()
    await world.first()
    await world.said_of_cluster()
    await world.machine("w")
    status, reason, message = await world.said("w")
    assert (status, reason) == WAITING
    assert "cluster default/c is not connected" in message
    world.workload.connect()
    await asyncio.sleep(1)
    assert (await world.config("w")).status.ready


async def test_a_cluster_that_refuses_a_token_is_told_and_asked_again(world: World) -> None:
    await initialized(world)

    world.workload.line.choose = lambda request: FORBIDDEN if is_token(request) else None
    await world.machine("w")
    assert await world.said("w") == (
        *WAITING,
        "no bootstrap token yet: cluster default/c refuses a bootstrap token: 403 Forbidden",
    )
    asked = [request for _, request in world.workload.line.asked if is_token(request)]
    await asyncio.sleep(600)
    again = [request for _, request in world.workload.line.asked if is_token(request)]
    assert len(asked) < len(again) < 40, "with pauses"
    world.workload.line.choose = lambda _request: None
    await asyncio.sleep(60)
    assert (await world.config("w")).status.ready


async def test_a_cluster_that_hangs_delays_only_the_machines_that_join_it(world: World) -> None:
    await initialized(world)
    world.workload.line.choose = lambda request: Delay(1000.0) if is_token(request) else None
    for number in range(20):
        await world.machine(f"w-{number}", settle=0)
    bare = {"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k"}}}}
    await world.machine("other", spec=bare)
    assert (await world.config("other")).status.ready
    world.workload.line.choose = lambda _request: None
    await asyncio.sleep(150)
    assert all([(await world.config(f"w-{number}")).status.ready for number in range(20)])
    assert len(await world.tokens()) == 20


@pytest.mark.parametrize("name", ["w", "users-own"])
async def test_a_status_that_was_lost_in_a_move_is_made_again(world: World, name: str) -> None:
    await world.cluster(initialized=True)
    await world.machine("w", bootstrap={"dataSecretName": name}, providerID="x:///w")
    config = await world.config("w")
    assert (config.status.ready, config.status.data_secret_name) == (True, name)
    assert await world.tokens() == {}
    assert world.writes() == [("PATCH", "kubeadmconfigs/w/status")]


async def test_a_status_that_was_lost_is_made_again_when_the_node_was_found_first(world: World) -> None:
    await world.cluster(infrastructure=False)
    await world.machine("w", bootstrap={"dataSecretName": "w"})
    await world.joined("w")
    await world.said_of_cluster()
    assert (await world.config("w")).status.ready


async def test_a_moved_secret_is_owned_by_the_moved_object(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    before = {"apiVersion": KUBEADM_CONFIG.resource.api_version, "kind": "KubeadmConfig", "name": "w"}
    old = {**before, "uid": "old", "controller": True}
    await world.user.patch(SECRET, key("w"), {"metadata": {"ownerReferences": [old]}})
    await asyncio.sleep(1)
    (owner,) = (await world.secret("w")).metadata.owner_references
    assert (owner.uid, owner.controller) == ((await world.config("w")).metadata.uid, True)


@pytest.mark.parametrize(
    "labels", [{}, {"cluster.x-k8s.io/cluster-name": "c"}], ids=["no label", "the label"]
)
async def test_a_users_own_secret_of_the_name_of_the_data_stays_and_is_told_of(
    world: World, labels: dict[str, str]
) -> None:
    await initialized(world)
    mine = {"metadata": {"name": "w", "labels": labels}, "stringData": {"value": "mine"}}
    await world.user.create(SECRET, mine, namespace=NS)
    await world.machine("w")
    _, reason, message = await world.said("w")
    assert reason == "DataSecretGenerationFailed"
    assert "Secret w is there and is not of this KubeadmConfig" in message
    await asyncio.sleep(100)
    assert (await world.secret("w")).data == {"value": b"mine"}
    await world.user.delete(SECRET, key("w"))
    await asyncio.sleep(31)
    assert (await world.config("w")).status.ready


async def test_data_is_not_made_twice_after_a_crash(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    before = (await world.secret("w")).data
    await world.user.patch(
        KUBEADM_CONFIG, key("w"), {"status": {"ready": None, "dataSecretName": None}}, subresource="status"
    )
    await asyncio.sleep(1)
    assert (await world.config("w")).status.ready
    assert (await world.secret("w")).data == before
    assert len(await world.tokens()) == 1


async def test_a_missing_secret_of_a_file_is_told_and_waited_for(world: World) -> None:
    await initialized(world)
    source = {"path": "/a", "contentFrom": {"secret": {"name": "s", "key": "k"}}}
    await world.machine("w", spec={"files": [source]})
    assert await world.said("w") == (*FAILED, "Secret s for file /a does not exist")
    secret = {"metadata": {"name": "s"}, "stringData": {"k": "content"}}
    await world.user.create(SECRET, secret, namespace=NS)
    await asyncio.sleep(31)
    files = {each["path"]: each["content"] for each in (await world.data("w"))["write_files"]}
    assert files["/a"] == "content\n"


async def test_bad_certificates_are_told_and_left_alone(world: World) -> None:
    await world.cluster(initialized=True)
    rubbish = {"metadata": {"name": "c-ca"}, "stringData": {"tls.crt": "rubbish", "tls.key": "s3cr3t"}}
    await world.user.create(SECRET, rubbish, namespace=NS)
    await world.machine("w")
    status, reason, message = await world.said("w", "CertificatesAvailable")
    assert (status, reason) == ("False", "CertificatesCorrupted")
    assert message == "Secret c-ca has a tls.crt that is neither a certificate nor a public key in PEM"
    assert (await world.secret("c-ca")).data["tls.key"] == b"s3cr3t"


async def test_a_cluster_that_joins_without_certificates_waits_for_them(world: World) -> None:
    await world.cluster(initialized=True)
    world.workload.connect()
    await world.machine("w")
    assert await world.said("w", "CertificatesAvailable") == (
        "False",
        "CertificatesCorrupted",
        "waits for Secret c-ca",
    )


@pytest.mark.parametrize(
    ("spec", "version", "told"),
    [
        pytest.param({}, "v1.2.3", "Kubernetes v1.2.3 is older than v1.15.0, the oldest that can be bootstrapped", id="an old version"),
        pytest.param({}, "latest", "Kubernetes version 'latest' is not a version such as v1.31.0", id="a version that is none"),
        pytest.param({"joinConfiguration": {"controlPlane": {}}}, "v1.31.0", "the Machine is a worker, but spec.joinConfiguration.controlPlane is set", id="a wrong role"),
        pytest.param({"joinConfiguration": {"discovery": {"bootstrapToken": {"token": "s3cr3t"}}}}, "v1.31.0", "spec.joinConfiguration.discovery.bootstrapToken.token is no token: id.secret", id="a token that is none"),
        pytest.param({"format": "ignition", "ignition": {"containerLinuxConfig": {"additionalConfig": "a: ["}}}, "v1.31.0", "additionalConfig is not YAML: yaml: line 2: did not find expected node content", id="an addition that is none"),
    ],
)  # fmt: skip
async def test_bad_input_is_a_condition_and_no_loop(world: World, spec, version: str, told: str) -> None:
    await initialized(world)
    await world.machine("w", spec=spec, version=version)
    assert await world.said("w") == (*FAILED, told)
    writes, asked = len(world.writes()), len(world.line.asked)
    await asyncio.sleep(600)
    assert len(world.writes()) == writes
    assert len(world.line.asked) - asked < 100


async def test_data_that_the_server_refuses_is_told_without_what_is_in_it(world: World) -> None:
    await initialized(world)
    large = [{"path": f"/{number}", "content": "s3cr3t" * 1_700} for number in range(150)]
    await world.machine("w", spec={"files": large})
    status, reason, message = await world.said("w")
    assert (status, reason) == FAILED
    assert message.startswith("the API server refuses to write the data Secret: 4")
    assert "s3cr3t" not in message


async def test_a_paused_cluster_is_not_written(world: World) -> None:
    await world.cluster(paused=True)
    await world.first()
    assert world.writes() == []
    await world.user.patch(CLUSTER, CLUSTER_KEY, {"spec": {"paused": False}})
    await asyncio.sleep(1)
    assert (await world.config("cp-0")).status.ready


async def test_nothing_is_written_at_rest(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    await world.joined("w")
    writes, asked = len(world.writes()), len(world.workload.line.asked)
    await asyncio.sleep(1800)
    assert world.writes()[writes:] == []
    secrets = [each for _, each in world.workload.line.asked[asked:] if "secrets" in each.path]
    assert secrets == []


async def test_a_machine_whose_data_are_refused_lets_another_be_the_first(world: World) -> None:
    large = [{"path": f"/{number}", "content": "x" * 10_000} for number in range(150)]
    await world.cluster()
    spec = {"clusterConfiguration": {}, "initConfiguration": {}, "files": large}
    await world.machine("cp-0", control_plane=True, spec=spec)
    assert (await world.said("cp-0"))[:2] == FAILED
    await world.first("cp-1")
    await asyncio.sleep(120)
    assert (await world.config("cp-1")).status.ready
    assert (await world.lock()).data == {"lock-information": '{"machineName":"cp-1"}'}
    assert (await world.said("cp-0"))[:2] == WAITING
    before = len(world.writes())
    await asyncio.sleep(600)
    assert len(world.writes()) == before


async def test_a_lock_that_cannot_be_read_is_told(world: World) -> None:
    lock = {"metadata": {"name": "c-lock", "labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "data": {}}
    await world.user.create(CONFIG_MAP, lock, namespace=NS)
    await world.cluster()
    await world.first()
    status, reason, message = await world.said("cp-0")
    assert (status, reason) == FAILED
    assert "ConfigMap c-lock" in message
    await world.user.delete(CONFIG_MAP, key("c-lock"))
    await asyncio.sleep(1)
    assert (await world.config("cp-0")).status.ready


async def test_the_role_that_we_ship_allows_all_that_two_machines_ask_for(world: World) -> None:
    await initialized(world)
    await world.machine("w")
    assert (await world.config("w")).status.ready
    needs = {need for _, request in world.line.asked for need in permissions.asked(request)}
    assert permissions.missing(needs, permissions.granted(manifests.manifest())) == []
