"""Perform a Machine's plan: every write of a pass, but for the status, is sent from here.

Theory.      Steps run in order. One that changes the Machine itself ends the pass when it fails, since the
             others rest on it; what any other could not do is kept, shown by the status, and raised at the
             end. That an object changed or went meanwhile is not shown: the cache will bring it.
Evictions.   An eviction may take as long as webhooks and budgets of the workload cluster let it, far longer
             than a pass may call a cluster (``look.CALL_SECONDS``). So a pass only lists pods, and
             ``nodes.drain.removals`` sends the requests beside the workers, for each cluster with a bound of
             its own. They are cancelled when the session with the cluster is lost: its Machines are looked at
             when it is connected again.
Invariants.  A write onto what was read names its version or uid, a deletion its uid. Bootstrap data is in no
             message.
Called by    ``wiring``; ``WorkloadRemovals`` are made by ``clusters.world``, which runs them.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import MACHINE
from kubewright.api.core import NODE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.meta import without_finalizer
from kubewright.base.delays import UNHEARD
from kubewright.base.errors import After, KubewrightError, Retry
from kubewright.base.plan import Plan
from kubewright.clusters.machine.look import ClusterBusy, Looker, WorkloadCalls
from kubewright.clusters.machine.seen import (
    ITSELF,
    Claim,
    DeleteExternal,
    DeleteNode,
    Drain,
    PatchNode,
    RemoveFinalizer,
    Seen,
    Step,
    StoreData,
    UpdateMachine,
)
from kubewright.clusters.machine.seen import NODE as ABOUT_NODE
from kubewright.clusters.node import CLUSTER_NODE
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import onto, with_uid
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.removals import Removals
from kubewright.replicas.writes import error_of
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Listener, Lookup, NotConnected, Session
from kubewright.wire.errors import AlreadyExists, Conflict, is_stale
from kubewright.wire.gvk import Key


class WorkloadRemovals:
    """The requests of drains, by workload cluster."""

    def __init__(self, workloads: Workloads) -> None:
        self._of: dict[Key, Removals] = {}
        self._ending: set[asyncio.Task[None]] = set()
        workloads.subscribe(Listener(lambda _session: None, self._lost))

    def within(self, session: Session) -> Removals:
        """Those of the cluster of this session."""
        known = self._of.get(session.cluster)
        if known is None or known.client is not session.client:
            self._end(session.cluster)
            known = self._of[session.cluster] = Removals(session.client)
        return known

    async def run(self) -> None:
        """Own the requests until cancelled; then they are, too."""
        try:
            await asyncio.Event().wait()
        finally:
            for cluster in tuple(self._of):
                self._end(cluster)
            await asyncio.gather(*self._ending, return_exceptions=True)

    def _lost(self, session: Session, _because: str) -> None:
        self._end(session.cluster)

    def _end(self, cluster: Key) -> None:
        """Cancel what is under way in a cluster."""
        if (removals := self._of.pop(cluster, None)) is not None:
            task = asyncio.create_task(removals.end(), name=f"end of requests about pods of {cluster}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


UNSENT = (NotConnected, ClusterBusy)
"""Errors of calls to a workload cluster that were not sent. No condition shows them: the caches will soon
show that the cluster is not reached."""

Wake = Callable[[Key, str], None]
"""Enqueues a Machine, and says why."""

FORMAT = b"cloud-config"
"""The format of data that stood in a Machine: v1alpha2 had no other."""


class SecretTaken(KubewrightError):
    """The name of the Secret for a Machine's data is taken; no event tells when it no longer is."""

    retry: Retry = After(UNHEARD.total_seconds())


@dataclass(slots=True)
class Outcome:
    """What a pass did. ``gone``: the Machine is; ``failed``: what to show, by what it is about."""

    gone: bool = False
    failed: dict[str, str] = field(default_factory=dict)
    errors: list[KubewrightError] = field(default_factory=list)


class Actor:
    """Performs plans of Machines."""

    def __init__(
        self,
        client: Client,
        workloads: Lookup,
        calls: WorkloadCalls,
        looker: Looker,
        *,
        removals: WorkloadRemovals,
        wake: Wake,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._calls = calls
        self._looker = looker
        self._removals = removals
        self._wake = wake

    async def perform(self, seen: Seen, plan: Plan[Step]) -> Outcome:
        """All steps in order."""
        outcome = Outcome()
        for step in plan.steps:
            error = await error_of(self._step(seen, step))
            if isinstance(step, DeleteNode):
                self._note(seen, error)
            if error is None:
                continue
            outcome.errors.append(error)
            about, doing = _words(step)
            if not (is_stale(error) or isinstance(error, UNSENT)):
                outcome.failed[about] = f"could not {doing}: {error}"
            if about == ITSELF:
                break
        outcome.gone = not outcome.errors and any(isinstance(step, RemoveFinalizer) for step in plan.steps)
        return outcome

    def _note(self, seen: Seen, error: KubewrightError | None) -> None:
        """Note what came of the deletion of the Node. That nothing was sent is no attempt, and a conflict is
        about another Node."""
        notes = self._looker.notes(seen.machine.metadata.uid)
        if error is None or isinstance(error, Conflict):
            notes.node_error, notes.node_error_since = "", None
        elif not isinstance(error, UNSENT):
            notes.node_error, notes.node_error_since = str(error), notes.node_error_since or seen.now

    async def _step(self, seen: Seen, step: Step) -> None:
        match step:
            case StoreData() | UpdateMachine() | RemoveFinalizer():
                await self._on_machine(seen, step)
            case Claim() | DeleteExternal():
                await self._on_external(seen, step)
            case Drain(plan):
                self._drain(seen, plan)
            case PatchNode() | DeleteNode():
                client = self._workloads.get(seen.cluster_key).client
                async with self._calls.to(seen.cluster_key):
                    await self._on_node(step, client)
            case _:
                assert_never(step)

    async def _on_machine(self, seen: Seen, step: StoreData | UpdateMachine | RemoveFinalizer) -> None:
        meta = seen.machine.metadata
        key = Key(meta.namespace, meta.name)
        match step:
            case StoreData():
                await self._store(seen, step)
            case UpdateMachine(patch):
                await self._client.patch(MACHINE, key, onto(patch, meta))
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, names.MACHINE_FINALIZER)
                await self._client.patch(MACHINE, key, onto({"metadata": {"finalizers": left or None}}, meta))

    async def _on_external(self, seen: Seen, step: Claim | DeleteExternal) -> None:
        external = step.external
        assert external.kind is not None, "what was found has a kind"
        key = Key(seen.machine.metadata.namespace, external.ref.name)
        match step:
            case Claim():
                await self._client.patch(external.kind, key, step.patch)
            case DeleteExternal():
                with MayBeGone(key.name):
                    await self._client.delete(external.kind, key, uid=external.uid)

    def _drain(self, seen: Seen, plan: DrainPlan) -> None:
        """Begin what the drain asks of pods; the Machine is looked at again when that has ended."""
        meta = seen.machine.metadata
        woken = partial(self._wake, Key(meta.namespace, meta.name), "its pods have been asked to leave")
        removals = self._removals.within(self._workloads.get(seen.cluster_key))
        removals.start(meta.uid, self._looker.notes(meta.uid).drain, plan, woken, now=seen.now)

    async def _on_node(self, step: PatchNode | DeleteNode, client: Client) -> None:
        match step:
            case PatchNode(node, patch):
                await client.patch(CLUSTER_NODE, Key("", node.name), with_uid(patch, node.metadata.uid))
            case DeleteNode(name, uid):
                with MayBeGone(name):
                    await client.delete(NODE, Key("", name), uid=uid)

    async def _store(self, seen: Seen, step: StoreData) -> None:
        """Create the Secret; one of this Machine that is there was made by an earlier pass.

        Raises:
            SecretTaken: one is there that is not of this Machine.
        """
        meta = seen.machine.metadata
        owner = seen.owner
        body = {
            "metadata": {
                "name": step.secret,
                "labels": {names.CLUSTER_NAME_LABEL: seen.machine.spec.cluster_name},
                "ownerReferences": [
                    {
                        "apiVersion": owner.api_version,
                        "kind": owner.kind,
                        "name": owner.name,
                        "uid": owner.uid,
                        "controller": True,
                    }
                ],
            },
            "type": names.SECRET_TYPE,
            "data": {
                names.SECRET_VALUE_KEY: base64.b64encode(step.data.encode()).decode(),
                names.SECRET_FORMAT_KEY: base64.b64encode(FORMAT).decode(),
            },
        }
        try:
            await self._client.create(dynamic(SECRET.resource), body, namespace=meta.namespace)
        except AlreadyExists:
            found = await self._client.get(SECRET, Key(meta.namespace, step.secret))
            controller = found.metadata.controller
            if controller is None or controller.uid != meta.uid:
                by = f"{controller.kind} {controller.name}" if controller is not None else "no object"
                raise SecretTaken(
                    f"it is there, and {by} controls it; delete or rename it, or name it in "
                    "spec.bootstrap.dataSecretName"
                ) from None


def _words(step: Step) -> tuple[str, str]:
    """What a step is about, and what it does, for messages."""
    match step:
        case StoreData(secret):
            return ITSELF, f"write Secret {secret}"
        case UpdateMachine() | RemoveFinalizer():
            return ITSELF, "write the Machine"
        case Claim(about, external):
            return about, f"make the Machine the owner of {external}"
        case DeleteExternal(about, external):
            return about, f"delete {external}"
        case PatchNode(node):
            return ABOUT_NODE, f"write Node {node.name}"
        case Drain():
            return ABOUT_NODE, "drain its Node"
        case DeleteNode(name):
            return ABOUT_NODE, f"delete Node {name}"
    assert_never(step)
