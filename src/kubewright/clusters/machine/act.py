"""One Machine, one pass on the kernel: what performs each step, its status, and what users are told.

Theory.      Steps run in order. One that changes the Machine itself ends the pass when it fails, since the
             others rest on it; what any other could not do is kept, shown by the status, and raised at the
             end. That an object changed or went meanwhile is not shown: the cache will bring it. The status
             is of a second look at the caches, after the steps: they show our own writes.
Evictions.   An eviction may take as long as webhooks and budgets of the workload cluster let it, far longer
             than a pass may call a cluster (``look.CALL_SECONDS``). So a pass only lists pods, and
             ``nodes.drain.removals`` sends the requests beside the workers, for each cluster with a bound of
             its own. They are cancelled when the session with the cluster is lost: its Machines are looked at
             when it is connected again.
Invariants.  A write onto what was read names its version or uid, a deletion its uid. Bootstrap data is in no
             message. No pass waits for a pod, a provider or a cluster that does not answer. A state that only
             lasts until the next pass is not written.
Called by    ``runtime.controller``; wired by ``wiring``. ``WorkloadRemovals`` are made by
             ``clusters.world``, which runs them.
"""

import asyncio
import base64
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import MACHINE_COMPONENT, EventReason
from kubewright.api.cluster.v1beta1 import Machine, MachineStatus
from kubewright.api.core import NODE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.base.delays import UNHEARD
from kubewright.base.errors import After, KubewrightError, Retry
from kubewright.base.plan import Event, Plan
from kubewright.clusters import paces
from kubewright.clusters.machine.decide import decide
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
from kubewright.clusters.machine.status import events_of, status_of
from kubewright.clusters.node import CLUSTER_NODE
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Informer
from kubewright.kube.patches import with_uid
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.removals import Removals
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Listener, Lookup, NotConnected, Session
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, is_stale
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


class Machines(ObjectReconciler[Machine, Seen, Plan[Step]]):
    """The reconciler of Machines."""

    looks_again = True

    def __init__(
        self,
        environment: Environment,
        machines: Informer[Machine],
        looker: Looker,
        workloads: Lookup,
        calls: WorkloadCalls,
        *,
        removals: WorkloadRemovals,
        wake: Wake,
    ) -> None:
        client, recorder = environment.control.client, environment.recorder.of(MACHINE_COMPONENT)
        super().__init__(client, machines, recorder, finalizer=names.MACHINE_FINALIZER, pace=paces.MACHINES)
        self._looker = looker
        self._workloads = workloads
        self._calls = calls
        self._removals = removals
        self._wake = wake

    def forget(self, key: Key, uid: str) -> None:
        """The Machine is gone, or another one has its name."""
        self._looker.forget(key)

    async def look(self, found: Machine) -> Seen:
        """As ``Looker.look``."""
        return await self._looker.look(found)

    def decide(self, seen: Seen) -> Plan[Step]:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case StoreData():
                return self._store(seen, step)
            case UpdateMachine(patch):
                return self.patch(outcome, patch)
            case RemoveFinalizer():
                return self._let_go(seen, outcome)
            case Claim() | DeleteExternal():
                return self._on_external(seen, step)
            case Drain(plan):
                self._drain(seen, plan)
                return None
            case PatchNode() | DeleteNode():
                return self._in_workload(seen, step)

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """An error is raised when the pass is over; after one of the Machine itself no other is tried."""
        if isinstance(step, DeleteNode):
            self._note(seen, error)
        if error is None:
            return True
        outcome.errors.append(error)
        about, doing = _words(step)
        if not (is_stale(error) or isinstance(error, UNSENT)):
            outcome.shown[about] = f"could not {doing}: {error}"
        return about != ITSELF

    async def look_again(self, found: Machine, seen: Seen, outcome: Outcome) -> Seen:
        """What the caches show, with what failed in this pass."""
        return replace(self._looker.look_in_caches(found, seen), failed=outcome.shown)

    def status(self, seen: Seen, plan: Plan[Step], outcome: Outcome) -> MachineStatus | None:
        """As ``status.status_of``; None while a cache of a kind that it refers to is not read."""
        return None if seen.incomplete else status_of(seen)

    def events(self, seen: Seen, plan: Plan[Step], status: Any, *, written: bool) -> Iterable[Event]:
        """What has changed."""
        return events_of(seen.machine, status) if written else ()

    def refused(self, about: Machine, error: ApiError) -> Result:
        """The status could not be written, or the look not be taken: the error says when it is tried again.

        Raises:
            ApiError: always.
        """
        raise error

    async def _let_go(self, seen: Seen, outcome: Outcome) -> None:
        """Remove the finalizer, the last step of all."""
        await self.remove_finalizer(outcome)
        outcome.wake = None
        message = f"Machine {seen.machine.name} has been deleted"
        self.recorder.event(seen.machine, EventReason.DELETED, message)

    def _note(self, seen: Seen, error: KubewrightError | None) -> None:
        """Note what came of the deletion of the Node. That nothing was sent is no attempt, and a conflict is
        about another Node."""
        notes = self._looker.notes(seen.machine.metadata.uid)
        if error is None or isinstance(error, Conflict):
            notes.node_error, notes.node_error_since = "", None
        elif not isinstance(error, UNSENT):
            notes.node_error, notes.node_error_since = str(error), notes.node_error_since or seen.now

    async def _on_external(self, seen: Seen, step: Claim | DeleteExternal) -> None:
        external = step.external
        assert external.kind is not None, "what was found has a kind"
        key = Key(seen.machine.metadata.namespace, external.ref.name)
        match step:
            case Claim():
                await self.client.patch(external.kind, key, step.patch)
            case DeleteExternal():
                with MayBeGone(key.name):
                    await self.client.delete(external.kind, key, uid=external.uid)

    def _drain(self, seen: Seen, plan: DrainPlan) -> None:
        """Begin what the drain asks of pods; the Machine is looked at again when that has ended."""
        meta = seen.machine.metadata
        woken = partial(self._wake, Key(meta.namespace, meta.name), "its pods have been asked to leave")
        removals = self._removals.within(self._workloads.get(seen.cluster_key))
        removals.start(meta.uid, self._looker.notes(meta.uid).drain, plan, woken, now=seen.now)

    async def _in_workload(self, seen: Seen, step: PatchNode | DeleteNode) -> None:
        client = self._workloads.get(seen.cluster_key).client
        async with self._calls.to(seen.cluster_key):
            await self._on_node(step, client)

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
            await self.client.create(dynamic(SECRET.resource), body, namespace=meta.namespace)
        except AlreadyExists:
            found = await self.client.get(SECRET, Key(meta.namespace, step.secret))
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
