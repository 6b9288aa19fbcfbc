"""One data folder, several lives of the server."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.machine.manifests import crds
from kubewright.apiserver.server import ApiServer
from kubewright.base.errors import InvalidInput
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Gone
from kubewright.wire.http import ADMIN, Request, User

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MACHINES = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines"
MACHINE = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": "Machine",
    "metadata": {"name": "m", "finalizers": ["example.io/hold"]},
    "spec": {"class": {"kind": "MachineClass", "name": "c"}},
}


async def test_everything_is_there_after_a_restart_and_versions_go_on(serving: Any, tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for crd in crds():
            (await api.post(CRDS, crd)).ok()
        before = (await api.post(MACHINES, MACHINE)).ok()
        await api.post(api.at("secrets"), {"metadata": {"name": "gone"}})
        deleted = await api.delete(api.at("secrets", "gone"))
        version = (await api.get(MACHINES)).ok()["metadata"]["resourceVersion"]
        assert deleted.code == 200
    async with serving(tmp_path) as api:
        listed = (await api.get(MACHINES)).ok()
        assert listed["items"] == [before]
        assert listed["metadata"]["resourceVersion"] == version
        assert (await api.get(api.at("secrets", "gone"))).code == 404
        assert (await api.get("/api/v1/namespaces/default")).code == 200
        patched = (await api.patch(f"{MACHINES}/m", {"metadata": {"labels": {"a": "b"}}})).ok()
        assert int(patched["metadata"]["resourceVersion"]) > int(version)
        async with api.watch(MACHINES, resourceVersion=version) as watch:
            assert (await watch.next("MODIFIED"))["object"] == patched
        with pytest.raises(Gone, match="too old resource version"):
            async with api.watch(MACHINES, resourceVersion=before["metadata"]["resourceVersion"]):
                pass


def small(spec: dict[str, Any]) -> dict[str, Any]:
    """The definition of a small kind."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "smalls", "kind": "Small"}
    definition = {"group": "s.example.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "smalls.s.example.io"}, "spec": definition}


SMALLS = "/apis/s.example.io/v1/namespaces/default/smalls"
SMALL = {"apiVersion": "s.example.io/v1", "kind": "Small", "metadata": {"name": "s"}, "spec": {"size": 1}}


async def test_a_default_holds_for_older_objects_in_the_next_life_too(serving: Any, tmp_path: Path) -> None:
    size = {"type": "integer"}
    async with serving(tmp_path) as api:
        (await api.post(CRDS, small({"size": size}))).ok()
        made = (await api.post(SMALLS, SMALL)).ok()
        changed = small({"size": size, "new": {"type": "string", "default": "D"}})["spec"]
        (await api.patch(f"{CRDS}/smalls.s.example.io", {"spec": changed})).ok()
    async with serving(tmp_path) as api:
        assert (await api.get(SMALLS)).ok()["items"] == [{**made, "spec": {"size": 1, "new": "D"}}]


async def test_a_float_that_an_earlier_release_stored_is_read_as_an_integer(
    serving: Any, tmp_path: Path
) -> None:
    async with serving(tmp_path) as api:
        (await api.post(CRDS, small({"size": {"type": "integer"}}))).ok()
        (await api.post(SMALLS, SMALL)).ok()
    with contextlib.closing(sqlite3.connect(tmp_path / "objects.db")) as database:
        (data,) = database.execute("SELECT data FROM objects WHERE key = 'default/s'").fetchone()
        database.execute(
            "UPDATE objects SET data = ? WHERE key = 'default/s'",
            (data.replace(b'"size":1}', b'"size":1.0}'),),
        )
        database.commit()
    async with serving(tmp_path) as api:
        assert repr((await api.get(f"{SMALLS}/s")).ok()["spec"]["size"]) == "1"
        labelled = (await api.patch(f"{SMALLS}/s", {"metadata": {"labels": {"a": "b"}}})).ok()
        assert labelled["metadata"]["generation"] == 1


async def test_a_deletion_of_a_definition_is_finished_by_the_next_life(serving: Any, tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for crd in crds():
            (await api.post(CRDS, crd)).ok()
        (await api.post(MACHINES, MACHINE)).ok()
        await api.delete(f"{CRDS}/machines.machine.sapcloud.io")
    async with serving(tmp_path) as api:
        await api.clock.sleep(1)
        assert "deletionTimestamp" in (await api.get(f"{MACHINES}/m")).ok()["metadata"]
        await api.patch(f"{MACHINES}/m", {"metadata": {"finalizers": None}})
        await api.clock.sleep(1)
        assert (await api.get(f"{CRDS}/machines.machine.sapcloud.io")).code == 404
        assert (await api.get(MACHINES)).code == 404


async def test_a_new_schema_for_a_definition_that_is_being_deleted_lets_no_instance_be_lost(
    bare: Any,
) -> None:
    size = {"type": "integer"}
    (await bare.post(CRDS, small({"size": size}))).ok()
    held = {**SMALL, "metadata": {"name": "s", "finalizers": ["example.io/hold"]}}
    (await bare.post(SMALLS, held)).ok()
    definition = f"{CRDS}/smalls.s.example.io"
    await bare.delete(definition)
    await bare.clock.sleep(1)
    changed = small({"size": size, "new": {"type": "string"}})["spec"]
    (await bare.patch(definition, {"spec": changed})).ok()
    await bare.clock.sleep(1)
    assert (await bare.get(definition)).ok()["metadata"]["finalizers"] != []
    assert "deletionTimestamp" in (await bare.get(f"{SMALLS}/s")).ok()["metadata"]
    await bare.patch(f"{SMALLS}/s", {"metadata": {"finalizers": None}})
    await bare.clock.sleep(1)
    assert (await bare.get(definition)).code == 404
    assert (await bare.get(SMALLS)).code == 404


async def test_a_folder_in_use_is_refused(serving: Any, tmp_path: Path) -> None:
    async with serving(tmp_path):
        with pytest.raises(InvalidInput, match="is in use by another kubewright"):
            ApiServer(LoopClock(), path=tmp_path)


async def test_tokens_outlive_a_restart(serving: Any, tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.post(api.at("serviceaccounts"), {"metadata": {"name": "sa"}})
        answer = await api.post(api.at("serviceaccounts", "sa") + "/token", {"spec": {}})
        token = answer.ok()["status"]["token"]
    server = ApiServer(LoopClock(), path=tmp_path)
    user = server.user_of_token(token)
    assert user is not None
    assert user.name == "system:serviceaccount:default:sa"
    await server.close()
    assert (tmp_path / "token.key").stat().st_mode & 0o777 == 0o600


def damaged(key: Path, content: bytes | None) -> str:
    """What a start says when the key of tokens is not what it should be (None: it cannot be read)."""
    key.unlink()
    if content is None:
        key.mkdir()
    else:
        key.write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        ApiServer(LoopClock(), path=key.parent)
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "has 0 bytes and not 32"), (b"k" * 31, "has 31 bytes and not 32"), (None, "cannot read")],
    ids=["empty", "cut", "unreadable"],
)
async def test_a_damaged_key_of_tokens_is_told_and_not_replaced(
    serving: Any, tmp_path: Path, content: bytes | None, words: str
) -> None:
    key = tmp_path / "token.key"
    async with serving(tmp_path):
        assert len(key.read_bytes()) == 32
    assert words in damaged(key, content)
    assert key.is_dir() if content is None else key.read_bytes() == content
    key.rmdir() if content is None else key.unlink()
    with pytest.raises(InvalidInput, match=r"token\.key is missing: .* --accept-data-loss"):
        ApiServer(LoopClock(), path=tmp_path)
    await ApiServer(LoopClock(), path=tmp_path, accept_loss=True).close()  # a new key is made
    async with serving(tmp_path) as api:
        assert (await api.get("/version")).code == 200
    assert len(key.read_bytes()) == 32


async def test_a_caller_that_leaves_does_not_undo_its_write(bare: Any) -> None:
    call = asyncio.create_task(bare.post(bare.at("configmaps"), {"metadata": {"name": "a"}}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await bare.clock.sleep(1)
    assert (await bare.get(bare.at("configmaps", "a"))).code in (200, 404)
    await bare.post(bare.at("configmaps"), {"metadata": {"name": "b"}})
    assert (await bare.get(bare.at("configmaps", "b"))).code == 200


async def test_a_rule_about_a_field_that_is_not_there_is_refused(bare: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.a > 1"}]}},
    }
    crd = {
        "metadata": {"name": "as.b.io"},
        "spec": {
            "group": "b.io",
            "scope": "Cluster",
            "names": {"plural": "as", "kind": "A"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    answer = await bare.post(CRDS, crd)
    assert answer.code == 422
    assert "undefined field 'a'" in answer.message


RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def test_default_roles_are_made_and_mended_at_each_start(serving: Any, tmp_path: Path) -> None:
    own = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []}
    async with serving(tmp_path) as api:
        (await api.delete(f"{RBAC}/clusterroles/view")).ok()
        (await api.patch(f"{RBAC}/clusterroles/system:basic-user", {"rules": []})).ok()
        (await api.patch(f"{RBAC}/clusterroles/system:discovery", own)).ok()
    async with serving(tmp_path) as api:
        assert (await api.get(f"{RBAC}/clusterroles/view")).code == 200
        assert len((await api.get(f"{RBAC}/clusterroles/system:basic-user")).ok()["rules"]) == 2
        assert (await api.get(f"{RBAC}/clusterroles/system:discovery")).ok()["rules"] == []
        version = (await api.get(f"{RBAC}/clusterroles")).ok()["metadata"]["resourceVersion"]
    async with serving(tmp_path) as api:
        after = (await api.get(f"{RBAC}/clusterroles")).ok()["metadata"]["resourceVersion"]
        assert after == version, "a start with nothing to mend writes nothing"


async def test_rights_outlive_a_restart(serving: Any, tmp_path: Path) -> None:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "User", "name": "ann", "apiGroup": ref["apiGroup"]}
    async with serving(tmp_path) as api:
        body = {"metadata": {"name": "ann"}, "roleRef": ref, "subjects": [subject]}
        (await api.post(f"{RBAC}/clusterrolebindings", body)).ok()
    async with serving(tmp_path) as api:
        assert (await api.as_user("ann").get("/api/v1/nodes")).code == 200
        assert (await api.as_user("bob").get("/api/v1/nodes")).code == 403


@pytest.mark.parametrize(
    ("user", "path", "code"),
    [
        (ADMIN, "/api/v1/pods", 200),
        (User("u", ("system:authenticated",)), "/api/v1/pods", 403),
        (User("u", ("system:authenticated",)), "/apis", 200),
        (User(), "/api/v1/pods", 403),
        (User(), "/metrics", 403),
        (User(), "/version", 200),
        (User(), "/readyz", 200),
        (User(), "/apis", 403),
    ],
    ids=str,
)
async def test_who_may_see_what(user: User, path: str, code: int) -> None:

    server = ApiServer(LoopClock())
    await server.start()
    assert (await server.handle(Request("GET", path, user=user))).status == code
    await server.close()


async def test_requests_are_counted_by_verb_resource_and_code(bare: Any) -> None:
    await bare.post(bare.at("configmaps"), {"metadata": {"name": "a"}})
    await bare.post(bare.at("configmaps"), {"metadata": {"name": "a"}})
    await bare.get(bare.at("configmaps"))
    metrics = (await bare.get("/metrics")).body
    asked = ',client="kubewright-conformance"} 1'
    for line in (
        'verb="POST",group="",resource="configmaps",subresource="",code="201"',
        'verb="POST",group="",resource="configmaps",subresource="",code="409"',
        'verb="LIST",group="",resource="configmaps",subresource="",code="200"',
    ):
        assert line + asked in metrics
