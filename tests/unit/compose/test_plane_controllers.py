"""Which requests of clients are work for the controllers of a cluster in this process."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kubewright.base.errors import KubewrightError
from kubewright.compose.plane_controllers import Kept, begun_again, concerns_controllers, has_garbage
from kubewright.wire.http import Request

NODE = "/api/v1/nodes/n"
TOKENS = "/api/v1/namespaces/kube-system/secrets"


@pytest.mark.parametrize(
    ("request_", "concerns"),
    [
        pytest.param(Request("POST", "/api/v1/namespaces/default/pods"), True, id="a Pod is made"),
        pytest.param(Request("DELETE", "/api/v1/namespaces/mine"), True, id="a namespace goes"),
        pytest.param(Request("PATCH", "/apis/policy/v1/poddisruptionbudgets"), True, id="a budget changes"),
        pytest.param(Request("GET", "/api/v1/namespaces/default/pods"), False, id="nothing is written"),
        pytest.param(Request("PATCH", NODE), False, id="a node gets its labels"),
        pytest.param(Request("DELETE", NODE), False, id="the node of a machine goes"),
        pytest.param(
            Request("DELETE", NODE, body=b'{"propagationPolicy":"Foreground"}'),
            True,
            id="a node goes after what it owns",
        ),
        pytest.param(
            Request("DELETE", NODE, query=(("propagationPolicy", "Orphan"),)), True, id="and without it"
        ),
        pytest.param(Request("POST", TOKENS), False, id="a bootstrap token is made"),
        pytest.param(
            Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            False,
            id="a user asks what they may do",
        ),
    ],
)
def test_a_request_concerns_the_controllers(request_: Request, concerns: bool) -> None:
    assert concerns_controllers(request_) is concerns


@pytest.mark.parametrize("error", [KubewrightError("not now"), ValueError("a defect")])
async def test_controllers_that_end_by_an_error_begin_again_until_they_are_stopped(error: Exception) -> None:
    plane: Any = SimpleNamespace(address="a")
    ending, begun = asyncio.Event(), asyncio.Queue[None]()

    async def run(_plane: Any, ending: asyncio.Event) -> None:
        begun.put_nowait(None)
        if begun.qsize() == 1:
            raise error
        await ending.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(begun_again(run)(plane, ending))
        await asyncio.sleep(10)
        assert begun.qsize() == 2
        ending.set()


HELD = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("objects", "garbage"),
    [
        pytest.param(
            [{"uid": "a"}, {"uid": "b", "ownerReferences": [{"uid": "a"}]}], False, id="an owner lives"
        ),
        pytest.param([{"uid": "b", "ownerReferences": [{"uid": "a"}]}], True, id="an owner is gone"),
        pytest.param([{**HELD, "finalizers": ["foregroundDeletion"]}], True, id="it goes after what it owns"),
        pytest.param([{**HELD, "finalizers": ["orphan"]}], True, id="it goes without it"),
        pytest.param([{**HELD, "finalizers": ["example.org/hold"]}], False, id="others hold it"),
        pytest.param([{"finalizers": ["orphan"]}], False, id="it stays"),
    ],
)
def test_what_a_server_kept_may_be_work_of_the_garbage_collector(
    objects: list[dict[str, Any]], garbage: bool
) -> None:
    kept = msgspec.convert([{"metadata": each} for each in objects], list[Kept])
    assert has_garbage(kept) is garbage
