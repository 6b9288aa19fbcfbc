"""What a user has in a control plane goes only when that server says so itself."""

from typing import Any

import pytest
from tests.unit.looks.of_plane_users import a_user

from kubewright.controlplanes.users import seen
from kubewright.controlplanes.users.connection import revoke
from kubewright.controlplanes.users.seen import ACCOUNT, BINDING, ROLE
from kubewright.testing.looks import Shelf
from kubewright.wire.errors import NotFound

ALICE = a_user(of={"name": "alice"})[1]
MADE: tuple[tuple[Any, Any], ...] = (
    (ACCOUNT, seen.account_of(ALICE)),
    (ROLE, seen.role_of(ALICE)),
    (BINDING, seen.binding_of(ALICE)),
)
PATHS = [
    kind.resource.path(body["metadata"].get("namespace", ""), body["metadata"]["name"]) for kind, body in MADE
]


def server() -> Shelf:
    shelf = Shelf()
    for path, (_, body) in zip(PATHS, MADE, strict=True):
        shelf.objects[path] = {**body, "metadata": {**body["metadata"], "uid": "1", "resourceVersion": "1"}}
    return shelf


async def test_all_of_it_goes_and_what_is_gone_stays_so() -> None:
    shelf = server()
    await revoke(shelf.client, "alice")
    assert shelf.objects == {}
    await revoke(shelf.client, "alice")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_404_that_names_no_object_is_no_proof_that_it_is_gone(path: str, method: str) -> None:
    shelf = server()
    shelf.answers[f"{method} {path}"] = NotFound("404 page not found")
    with pytest.raises(NotFound):
        await revoke(shelf.client, "alice")
    assert path in shelf.objects
