"""What a driver is told about a machine: from the object, its cluster and its failure domain."""

from kubewright.api.cluster.v1beta1 import MACHINE
from kubewright.api.core import Secret
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE,
    FailureDomainSpec,
    LocalSecretReference,
    Provision,
)
from kubewright.api.meta import ObjectMeta
from kubewright.infra.provision import (
    class_request,
    domain_of,
    effective,
    machine_request,
    new_cloud_owner,
    with_data,
)

CLOUD = LocalSecretReference(name="cloud")


def test_what_a_machine_leaves_empty_is_its_clusters() -> None:
    found = effective(Provision(), Provision(driver="sim", credentials_ref=CLOUD), None)

    assert (found.driver, found.credentials_ref) == ("sim", CLOUD)


def test_what_a_machine_says_goes_before_its_cluster() -> None:
    own = Provision(driver="aws", credentials_ref=CLOUD, provider_spec={"size": 1})
    found = effective(own, Provision(driver="sim", provider_spec={"net": 1}), None)

    assert found == own


def test_the_spec_of_a_failure_domain_is_merged_into_that_of_the_machine() -> None:
    place = FailureDomainSpec(provider_spec={"zone": "b", "net": {"id": 2}, "spot": None})
    found = effective(Provision(provider_spec={"zone": "a", "net": {"mtu": 9000}, "spot": True}), None, place)

    assert found.provider_spec == {"zone": "b", "net": {"mtu": 9000, "id": 2}}


def test_a_failure_domain_must_be_one_of_the_clusters_if_it_names_any() -> None:
    domains = {"a": {"providerSpec": {"zone": "1a"}}, "b": {}}
    cluster = KUBEWRIGHT_CLUSTER.from_plain({"spec": {"failureDomains": domains}})

    assert domain_of(cluster, "a")[0] == FailureDomainSpec(provider_spec={"zone": "1a"})
    assert domain_of(cluster, "c") == (None, "failure domain 'c' is none of the cluster's: a, b")
    assert (
        domain_of(cluster, None)
        == domain_of(None, "c")
        == domain_of(KUBEWRIGHT_CLUSTER.type(), "c")
        == (None, "")
    )


def test_a_request_names_machine_owner_vm_and_class() -> None:
    body = {
        "metadata": {"name": "m1", "namespace": "ns", "uid": "u1"},
        "spec": {"providerID": "sim:///vm-1"},
        "status": {"nodeName": "node-1"},
    }
    of = class_request(
        Provision(driver="sim", provider_spec={"a": 1}),
        "ns",
        "demo",
        "kubewrightcluster.c1",
        Secret(data={"key": b"k"}),
    )
    told = machine_request(of, KUBEWRIGHT_MACHINE.from_plain(body), "note")
    labels = {"cluster.x-k8s.io/control-plane": ""}
    owner = MACHINE.from_plain(
        {"metadata": {"name": "m1", "labels": labels}, "spec": {"clusterName": "demo", "version": "v1.31.0"}}
    )
    request = with_data(told, b"#cloud-config", "cloud-config", owner)

    assert (request.name, request.namespace, request.owner_uid) == ("m1", "ns", "kubewrightmachine.u1")
    assert (request.provider_id, request.node_name, request.last_known_state) == (
        "sim:///vm-1",
        "node-1",
        "note",
    )
    assert request.machine_class.metadata.name == "demo.infrastructure.cluster.x-k8s.io"
    assert request.machine_class.metadata.uid == "kubewrightcluster.c1"
    assert (request.machine_class.provider, request.machine_class.provider_spec) == ("sim", {"a": 1})
    assert request.secret.data == {"key": b"k", "userData": b"#cloud-config"}
    assert (request.data_format, request.version) == ("cloud-config", "v1.31.0")
    assert request.control_plane
    assert "k'" not in repr(request.secret)


def test_clouds_know_an_object_that_was_moved_as_who_it_was() -> None:
    body = {
        "metadata": {
            "name": "m1",
            "uid": "u2",
            "annotations": {CLOUD_OWNER_ANNOTATION: "kubewrightmachine.a.u1"},
        }
    }
    moved = KUBEWRIGHT_MACHINE.from_plain(body)
    request = machine_request(class_request(Provision(), "ns", "demo", "", Secret()), moved, "")

    assert request.owner_uid == "kubewrightmachine.a.u1"


def test_the_name_by_which_clouds_know_a_machine_fits_into_their_labels() -> None:
    uid = "efb2d584-d372-4e8a-b18b-e0d3e6959ba3"
    made, elsewhere = (new_cloud_owner(ObjectMeta(name="demo", uid=each), uid) for each in (uid, "another"))

    assert (made, elsewhere) == (f"kubewrightmachine.74326a2e.{uid}", f"kubewrightmachine.23176214.{uid}")
    assert len(made) == 63
