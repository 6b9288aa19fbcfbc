"""What runs of Kubernetes' own controllers beside a control plane in this process.

Theory.      Those of a nested control plane are a component of it, and all of them run while that component
             does. Those of a cluster whose machines run its control plane begin when there is work for them:
             a thousand clusters that have nodes and nothing else need the life cycle of nodes only, and all
             of them cost each cluster 0.8 MiB and 30 ms. ``concerns_controllers`` says which request is the
             first work; what a control plane has when it begins to serve says so too, since it may have kept
             it from before. They reach their API server by a call, not by a socket, under a name of their
             own.
Invariants.  Once they run they run until the control plane pauses or ends. Their errors end nothing else.
Called by    ``api_servers`` and ``task_hosting``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import structlog

from kubewright import builtin
from kubewright.api.apps import DEPLOYMENT, REPLICA_SET
from kubewright.api.core import NAMESPACE, PDB, POD
from kubewright.api.kinds import Kind
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.builtin.garbage.graph import FOREGROUND, ORPHAN
from kubewright.kube.client import Client
from kubewright.kube.discovery import discover
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Group, Manager, Work
from kubewright.wire.http import Request

log = structlog.get_logger("kubewright.controlplanes")

CONTROLLER_MANAGER = "kube-controller-manager"
"""The reporting component in the events of these controllers, as in Kubernetes."""

WORK: Sequence[Kind[Any]] = (POD, DEPLOYMENT, REPLICA_SET, PDB)
"""The kinds of which one object is work for these controllers."""

LEFT = frozenset({"events", "leases"})
"""Their owners go without that the controllers begin: a Node's Lease is left where its Node was deleted."""

AGAIN_SECONDS = 5.0
"""From the end of controllers by an error to their next begin."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})
QUIET = (
    "/api/v1/nodes",
    "/api/v1/namespaces/kube-system/secrets",
    "/apis/authentication.k8s.io/",
    "/apis/authorization.k8s.io/",
)
"""Where the controllers of machines and clusters write in every cluster, and leave no work by it."""


MARKS = (b"Foreground", b"Orphan")
"""In the body or the query of a deletion: what is left is the garbage collector's work."""


class Served(Protocol):
    """A control plane, as far as its controllers need it; its server runs ``informers``.

    ``touched``  is set by the first request that concerns the controllers
    """

    address: str
    server: ApiServer
    informers: Informers
    touched: asyncio.Event


RunControllers = Callable[[Served, asyncio.Event], Coroutine[Any, Any, None]]
"""Runs the controllers of a control plane until the event is set."""


def controllers_of(settings: builtin.Settings, clock: Clock) -> RunControllers:
    """Those of ``builtin``, with these settings, on the caches that the control plane has anyway."""

    async def run(plane: Served, ending: asyncio.Event) -> None:
        client = Client(InProcess(plane.server.handle), clock, name=f"{CONTROLLER_MANAGER} {plane.address}")
        informers = plane.informers.borrow(client, anew=False)
        recorder = Recorder(client, clock, CONTROLLER_MANAGER, kinds=builtin.EVENT_KINDS)
        made = builtin.controllers(informers, settings=settings, recorder=recorder)
        work = Work(made.controllers, [informers], made.background, end=informers.give_back)
        group = Group(CONTROLLER_MANAGER, clock, lambda: work)
        await Manager([], [group], services=[recorder.run]).run(ending)

    return run


def when_needed(run: RunControllers) -> RunControllers:
    """The same controllers, from the moment on when there is work for them."""

    async def waiting(plane: Served, ending: asyncio.Event) -> None:
        if not await has_work(plane.informers.client):
            waits = [asyncio.create_task(each.wait()) for each in (plane.touched, ending)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
        if not ending.is_set():
            await run(plane, ending)

    return waiting


def concerns_controllers(request: Request) -> bool:
    """Whether a client's request may leave work for controllers other than the life cycle of nodes. Pure."""
    if request.method in READS:
        return False
    said = request.body + request.param("propagationPolicy").encode()
    return any(mark in said for mark in MARKS) or not request.path.startswith(QUIET)


def begun_again(run: RunControllers) -> RunControllers:
    """The same controllers; where they end by an error, that is logged, and they begin again."""

    async def running(plane: Served, ending: asyncio.Event) -> None:
        while not ending.is_set():
            try:
                await run(plane, ending)
                break
            except KubewrightError as error:
                log.warning("controllers ended, and begin again", address=plane.address, why=str(error))
            except Exception:
                log.exception("controllers ended, and begin again", address=plane.address)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS):
                    await ending.wait()

    return running


class Kept(msgspec.Struct, frozen=True):
    """An object, as far as the garbage collector's work shows in it."""

    class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
        class _Owner(msgspec.Struct, frozen=True):
            uid: str = ""

        uid: str = ""
        deletion_timestamp: str | None = None
        finalizers: list[str] = msgspec.field(default_factory=list)
        owner_references: list[_Owner] = msgspec.field(default_factory=list)

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Listed(msgspec.Struct, frozen=True):
    items: list[Kept]


def has_garbage(objects: Sequence[Kept]) -> bool:
    """Whether the garbage collector has work with these, which are all of a server. Pure."""
    known = {each.metadata.uid for each in objects}
    return any(
        (each.metadata.deletion_timestamp and not {FOREGROUND, ORPHAN}.isdisjoint(each.metadata.finalizers))
        or any(owner.uid not in known for owner in each.metadata.owner_references)
        for each in objects
    )


async def has_work(client: Client) -> bool:
    """Whether a control plane holds anything that these controllers work on.

    Raises:
        ApiError: its API server does not answer as it should.
    """
    for kind in WORK:
        request = client.request("GET", kind.resource.path(), query=(("limit", "1"),))
        if msgspec.json.decode((await client.send(request)).body)["items"]:
            return True
    if any(each.metadata.deleting for each in await client.list(NAMESPACE)):
        return True
    found: list[Kept] = []
    for served in (await discover(client)).served:
        if "list" in served.verbs and served.resource.plural not in LEFT:
            answer = await client.send(client.request("GET", served.resource.path()))
            found += msgspec.json.decode(answer.body, type=_Listed).items
    return has_garbage(found)
