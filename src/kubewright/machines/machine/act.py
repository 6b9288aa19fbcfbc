"""Perform a plan: the only file that writes about one machine.

Theory.      Steps run in order and stop at the first failure; the status is written after them,
             in one patch, when it says something new. Every patch names the uid of what was
             seen, so a namesake that was made meanwhile is never touched; where a list is
             replaced as a whole (finalizers), it also names the version.
Invariants.  No PUT. No step waits for a cloud or a pod. A refused eviction is not an error.
Called by    ``reconciler.Machines``.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any, assert_never

from kubewright.api.core import NODE, SECRET, VOLUME_ATTACHMENT
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.kube.patches import merge_patch
from kubewright.machines.machine import userdata
from kubewright.machines.machine.calls import VmCalls
from kubewright.machines.machine.look import Looker, Notes
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.status import machine_status
from kubewright.machines.machine.steps import (
    Adorn,
    Call,
    Cordon,
    DeleteNode,
    Drain,
    DropToken,
    MachineStep,
    MarkTerminating,
    NodeStep,
    Plan,
    Record,
    Release,
    ReleaseVolumes,
    SyncNode,
    Verb,
)
from kubewright.machines.parts import Parts
from kubewright.nodes.drain import run as drains
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH


class Actor:
    """Performs plans on both clusters."""

    def __init__(self, parts: Parts, looker: Looker, calls: VmCalls) -> None:
        self._control = parts.control
        self._target = parts.target
        self._recorder = parts.recorder
        self._clock = parts.clock
        self._looker = looker
        self._calls = calls

    async def perform(self, key: Key, seen: Seen, plan: Plan) -> Result:
        """All steps, then the status; raises what the API server or network said no with."""
        for step in plan.steps:
            if isinstance(step, NodeStep):
                await self._on_node(seen, step)
            else:
                await self._on_machine(key, seen, step)
        if not any(isinstance(step, Release) for step in plan.steps):
            await self._report(key, seen, plan)
        if plan.warning is not None:
            self._recorder.event(seen.machine, *plan.warning, warning=True)
        return Result.later(plan.wake.total_seconds()) if plan.wake is not None else Result.done()

    async def _on_machine(self, key: Key, seen: Seen, step: MachineStep) -> None:
        machine = seen.machine
        match step:
            case Adorn(patch):
                await self._patch(machine, {"metadata": {**patch, **_exactly(machine)}})
            case Call(verb):
                await self._call(key, seen, verb)
            case Record(found):
                meta = {"labels": {names.NODE_LABEL: found.node_name}, "uid": machine.metadata.uid}
                await self._patch(machine, {"metadata": meta, "spec": {"providerID": found.provider_id}})
            case DropToken():
                await self._drop_token(machine)
            case Release():
                await self._release(machine)
            case _:
                assert_never(step)

    async def _on_node(self, seen: Seen, step: NodeStep) -> None:
        node = Key("", seen.node.metadata.name if seen.node else "")
        match step:
            case SyncNode(patch) | Cordon(patch):
                await self._target.patch(NODE, node, patch)
            case MarkTerminating(patch):
                await self._target.patch(
                    NODE, node, patch, subresource="status", content_type=STRATEGIC_PATCH
                )
            case Drain(drain):
                await self._drain(seen.machine.metadata.uid, drain)
            case ReleaseVolumes(attachments):
                for name in attachments:
                    await self._gone_is_fine(VOLUME_ATTACHMENT, Key("", name))
            case DeleteNode(name, uid):
                await self._gone_is_fine(NODE, Key("", name), uid)
            case _:
                assert_never(step)

    async def _report(self, key: Key, seen: Seen, plan: Plan) -> None:
        before = seen.machine.status
        after = machine_status(seen, plan.report, self._clock.now())
        if patch := merge_patch(before, after):
            body = {"metadata": {"uid": seen.machine.metadata.uid}, "status": patch}
            await self._control.patch(MACHINE, key, body, subresource="status")

    async def _patch(self, machine: Machine, body: dict[str, Any]) -> None:
        await self._control.patch(MACHINE, Key(machine.metadata.namespace, machine.metadata.name), body)

    async def _call(self, key: Key, seen: Seen, verb: Verb) -> None:
        machine = seen.machine
        data = None
        if verb is not Verb.DELETE and (raw := self._looker.user_data(machine)):
            token = await self._token(machine, seen) if userdata.wants_token(raw) else ""
            data = userdata.filled(raw, machine.metadata.name, token)
        self._calls.start(key, verb, self._looker.request(machine, data), seen.inputs)

    async def _token(self, machine: Machine, seen: Seen) -> str:
        """The machine's bootstrap token, made when there is none (mcm.md §4.6)."""
        uid = machine.metadata.uid
        key = Key(userdata.NAMESPACE, userdata.token_name(uid))
        secret = userdata.token_secret(self._clock)
        expires: datetime = self._clock.now() + seen.creation_timeout
        data = userdata.token_data(machine.metadata.name, uid, secret, expires, seen.settings.token_groups)
        body = {"metadata": {"name": key.name}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        try:
            await self._target.create(SECRET, body, namespace=key.namespace)
        except AlreadyExists:
            found = await self._target.get(SECRET, key)
            secret = found.data.get("token-secret", b"").decode()
        return f"{userdata.token_id(uid)}.{secret}"

    async def _drop_token(self, machine: Machine) -> None:
        await self._gone_is_fine(SECRET, Key(userdata.NAMESPACE, userdata.token_name(machine.metadata.uid)))

    async def _drain(self, uid: str, plan: DrainPlan) -> None:
        notes = self._looker.notes.setdefault(uid, Notes())
        outcome = await drains.run(plan, self._target, now=self._clock.now(), tries=notes.tries)
        notes.tries = outcome.tries

    async def _gone_is_fine(self, kind: Any, key: Key, uid: str = "") -> None:
        with suppress(NotFound):
            await self._target.delete(kind, key, uid=uid)

    async def _release(self, machine: Machine) -> None:
        left = names.without_finalizer(machine.metadata.finalizers, names.FINALIZER)
        with suppress(NotFound):
            await self._patch(machine, {"metadata": {"finalizers": left, **_exactly(machine)}})
        self._looker.forget(machine.metadata.uid)


def _exactly(machine: Machine) -> dict[str, str]:
    """The precondition of a write that depended on what was read."""
    return {"uid": machine.metadata.uid, "resourceVersion": machine.metadata.resource_version}
