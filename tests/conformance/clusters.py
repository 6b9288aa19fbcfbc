"""What the tests of clusters on a real kube-apiserver share: kinds that are served, and objects that are waited for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubewright.testing.api import Api

WAIT_SECONDS = 120.0
"""The Go programs wait for 30 s and for 60 s where no event wakes them (capi.md §9.1, §6.5)."""


async def install(api: Api, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create CRDs, and wait until discovery names their kinds: a Go manager asks it once, when it starts."""
    wanted = {each["metadata"]["name"] for each in definitions}
    groups = {each["spec"]["group"] for each in definitions}
    for each in definitions:
        (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)).ok()

    async def served() -> bool:
        found = set()
        for group in groups:
            answer = await api.get(f"/apis/{group}/v1beta1")
            resources = answer.body["resources"] if answer.code == 200 else []
            found |= {f"{each['name']}.{group}" for each in resources}
        return wanted <= found

    await api.eventually(served, "the kinds are served")


async def until(api: Api, path: str, met: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The object at ``path``, once it is as it should be."""

    async def look() -> Any:
        answer = await api.get(path)
        return answer.body if answer.code == 200 and met(answer.body) else None

    return dict(await api.eventually(look, f"{path} is as it should be", seconds=WAIT_SECONDS))


async def listed(
    api: Api, path: str, met: Callable[[list[dict[str, Any]]], bool], *, labels: str = ""
) -> list[dict[str, Any]]:
    """The objects at ``path`` with these labels, once they are as they should be."""
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        nonlocal found
        found = (await api.get(path, labelSelector=labels)).ok()["items"]
        return met(found)

    await api.eventually(look, f"the objects at {path} are as they should be", seconds=WAIT_SECONDS)
    return found
