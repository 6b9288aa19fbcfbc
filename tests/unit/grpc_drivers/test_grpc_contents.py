"""What drivers fetch: by revision, by path or name, and only what operations were about."""

from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import MachineClass, MachineClassStatus, SecretReference
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import ClassRequest
from kubewright.providers.grpc import connection
from kubewright.providers.grpc.connection import Contents, NotKept
from kubewright.providers.grpc.messages import MachineClassMeta, SecretMeta

CLASS = MachineClass(
    metadata=ObjectMeta(name="small", namespace="ns", resource_version="7"),
    provider="aws",
    provider_spec={"ami": "a"},
    secret_ref=SecretReference(name="keys", namespace="ns"),
    credentials_secret_ref=SecretReference(name="account", namespace="other"),
)
SECRETS = Secret(data={"key": b"value", "userData": b"#cloud-config"})
REQUEST = ClassRequest(CLASS, SECRETS)


def test_the_revision_changes_with_the_class_and_with_its_secret_and_with_nothing_else() -> None:
    kept = Contents()
    first = kept.put(REQUEST).revision
    written = structs.replace(
        CLASS,
        metadata=structs.replace(CLASS.metadata, resource_version="8"),
        status=MachineClassStatus(),
    )
    assert kept.put(replace(REQUEST, machine_class=written)).revision == first
    assert Contents().put(REQUEST).revision == first, "the next process says the same"
    other = structs.replace(CLASS, provider_spec={"ami": "b"})
    another = replace(REQUEST, secret=Secret(data={"key": b"renewed"}))
    revisions = {first, kept.put(replace(REQUEST, machine_class=other)).revision, kept.put(another).revision}
    assert len(revisions) == 3
    assert all(0 < each < 1 << 31 for each in revisions)


@pytest.mark.parametrize(
    "name", ["/apis/machine.sapcloud.io/v1alpha1/namespaces/ns/machineclasses/small", "small"]
)
@pytest.mark.parametrize("revision", [0, None])
def test_class_and_secret_are_found_by_path_and_by_name(name: str, revision: int | None) -> None:
    kept = Contents()
    number = kept.put(REQUEST).revision if revision is None else (kept.put(REQUEST), revision)[1]
    found = msgspec.json.decode(kept.machine_class(MachineClassMeta(name, number)))
    assert (found["kind"], found["providerSpec"]) == ("MachineClass", {"ami": "a"})
    for place in (("keys", "ns"), ("account", "other")):
        secret = SECRET.decode(kept.secret(SecretMeta(*place, number)).encode())
        assert (secret.name, secret.namespace, secret.data) == (*place, SECRETS.data)


def test_a_machines_own_user_data_is_that_of_its_revision() -> None:
    kept = Contents()
    metas = {
        text: kept.put(replace(REQUEST, secret=Secret(data={"userData": text}))) for text in (b"one", b"two")
    }
    for text, meta in metas.items():
        secret = SECRET.decode(kept.secret(SecretMeta("keys", "ns", meta.revision)).encode())
        assert secret.data == {"userData": text}


def test_of_a_revision_that_was_let_go_no_other_machines_user_data_is_told() -> None:
    kept, gone = Contents(), 7
    kept.put(replace(REQUEST, secret=Secret(data={"userData": b"one"})))
    assert SECRET.decode(kept.secret(SecretMeta("keys", "ns", gone)).encode()).data == {"userData": b"one"}
    kept.put(replace(REQUEST, secret=Secret(data={"userData": b"two"})))
    with pytest.raises(NotKept, match="revision 7 of secret 'ns/keys' is not kept any more"):
        kept.secret(SecretMeta("keys", "ns", gone))


def test_a_class_without_the_name_of_a_secret_gets_one_if_there_is_any_content() -> None:
    kept = Contents()
    nameless = structs.replace(CLASS, secret_ref=None, credentials_secret_ref=None)
    meta = kept.put(ClassRequest(nameless, SECRETS))
    ref = msgspec.json.decode(kept.machine_class(meta))["secretRef"]
    secret = SECRET.decode(kept.secret(SecretMeta(ref["name"], ref["namespace"], meta.revision)).encode())
    assert secret.data == SECRETS.data
    without = kept.put(ClassRequest(nameless))
    assert "secretRef" not in msgspec.json.decode(kept.machine_class(without))


def test_what_no_operation_was_about_is_not_told() -> None:
    kept = Contents()
    kept.put(REQUEST)
    with pytest.raises(NotKept, match="no operation was about a class 'large'"):
        kept.machine_class(MachineClassMeta("large"))
    with pytest.raises(NotKept, match="no operation was about a class with secret 'kube-system/keys'"):
        kept.secret(SecretMeta("keys", "kube-system"))


def test_what_is_kept_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "KEPT_BYTES", 5000)
    kept = Contents()
    for number in range(50):
        kept.put(replace(REQUEST, secret=Secret(data={"userData": b"%d" % number + b"x" * 500})))
    assert len(kept._entries) < 10
    assert sum(each.size for each in kept._entries.values()) == kept._bytes <= 5000
    kept.put(replace(REQUEST, secret=Secret(data={"userData": b"x" * 9000})))
    assert len(kept._entries) == 1, "the newest is kept whatever its size"
