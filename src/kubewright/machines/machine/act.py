"""Perform a machine's plan: send its steps to the API servers and the driver, then write the status.

Theory.      Steps run in order and stop at the first failure; the status is written after them,
             in one patch, when it says something new. Every patch of the machine carries the uid and
             the resourceVersion of what was seen: a later machine of the same name is never touched, and
             a patch that the network delivers a minute late changes nothing.
Invariants.  No PUT. No step waits for a driver or a pod. A refused eviction is not an error. A write that
             the server refuses for good ends the pass as ``WriteFailed``; the next pass decides with that
             (``refusals``). The event of a report is sent when the status changes, not in every pass.
Called by    ``reconciler.Machines``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, assert_never

import structlog
from msgspec import structs

from kubewright.api.core import NODE, Node
from kubewright.api.diff import merge_patch
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.base.errors import KubewrightError, Retry
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone, TransportError
from kubewright.kube.patches import onto, outside_of_a_pass, with_uid, with_version
from kubewright.machines.caches import Shared
from kubewright.machines.machine.look import Notes
from kubewright.machines.machine.refusals import status_refused
from kubewright.machines.machine.requests import Requests
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.status import machine_status
from kubewright.machines.machine.steps import (
    AddFinalizer,
    Annotate,
    Call,
    DeleteBootstrapToken,
    DeleteMachine,
    DeleteNode,
    DeleteVolumeAttachments,
    Drain,
    EndPreservation,
    MachineStep,
    NodePatch,
    NodeStatusPatch,
    NodeStep,
    Plan,
    Record,
    RemoveFinalizer,
    Step,
    UpdateVm,
)
from kubewright.machines.machine.unanswered import is_unanswered
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, NotFound, is_refusal
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

log = structlog.get_logger(__name__)


class WriteFailed(Exception):
    """A step (None: the status) failed in a way that the next decision may take into account: an API server
    refused it for good, or did not answer what a deletion needs. Never leaves this package."""

    def __init__(self, step: Step | None, error: KubewrightError) -> None:
        super().__init__(str(error))
        self.step, self.error = step, error


@contextmanager
def _named(step: Step | None, *, deleting: bool = False) -> Iterator[None]:
    """Say which step failed, where that is to be remembered."""
    try:
        yield
    except (ApiError, TransportError) as error:
        of_node = isinstance(step, NodeStep | DeleteBootstrapToken)
        if is_refusal(error) or (deleting and of_node and is_unanswered(error)):
            raise WriteFailed(step, error) from error
        raise


class NodeGone(KubewrightError):
    """The node that was seen is no longer there: end the pass and look again."""

    retry: Retry = delays.OVERTAKEN


class Actor:
    """Performs plans on both clusters. It tells ``succeeded`` each step that did, of the machine of that uid:
    a later step of the plan may fail."""

    def __init__(
        self,
        shared: Shared,
        requests: Requests,
        calls: VmCalls,
        wake: Callable[[Key, str], None],
        succeeded: Callable[[str, Step], None],
    ) -> None:
        self._control = shared.control
        self._target = shared.target
        self._recorder = shared.recorder
        self._clock = shared.clock
        self._requests = requests
        self._calls = calls
        self._removals = shared.removals
        self._wake = wake
        self._succeeded = succeeded

    async def perform(self, seen: Seen, plan: Plan, notes: Notes) -> Result:
        """All steps, then the status.

        Raises:
            WriteFailed: a write was refused for good, or one about the node of a machine in deletion was
                not answered; what came before it in the plan is done.
            ApiError, TransportError: an API server failed the request for now, or could not be reached.
        """
        latest, node = seen.machine.metadata, seen.node
        for step in plan.steps:
            with _named(step, deleting=latest.deleting):
                if isinstance(step, NodeStep):
                    node = await self._on_node(seen, step, notes, node)
                else:
                    latest = await self._on_machine(seen, step) or latest
            self._succeeded(latest.uid, step)
        with _named(None):
            changed = not status_refused(seen) and await self._report(seen, plan, latest)
        if changed or plan.report is None:
            self._tell(seen.machine, plan, notes)
        return Result.later(plan.wake)

    def _tell(self, machine: Machine, plan: Plan, notes: Notes) -> None:
        """Write the plan's milestone and warning to the log, and as events of the machine."""
        about = {"machine": machine.metadata.name, "namespace": machine.metadata.namespace}
        if (told := plan.milestone) is not None:
            log.info(told.message, reason=told.reason.value, **about)
            if told.event:
                self._recorder.event(machine, told.reason, told.message)
        if plan.warning is not None and _first_told(plan, notes):
            reason, message = plan.warning
            log.info(message, reason=str(reason), **about)
            self._recorder.event(machine, reason, message, warning=True)

    async def _on_machine(self, seen: Seen, step: MachineStep) -> ObjectMeta | None:
        """Perform one step; return the machine's metadata after it, if it patched the machine."""
        machine, meta = seen.machine, seen.machine.metadata
        match step:
            case AddFinalizer(patch) | Annotate(patch):
                return await self._patch(meta, {"metadata": patch})
            case UpdateVm(patch):
                marked = await self._patch(meta, {"metadata": patch}) if patch["annotations"] else None
                self._update(seen, step)
                return marked
            case Call(verb):
                self._call(seen, verb)
            case Record(found, notes):
                labels = {"labels": {names.NODE_LABEL: found.node_name}}
                known = {**labels, "annotations": notes} if notes else labels
                return await self._patch(meta, {"metadata": known, "spec": {"providerID": found.provider_id}})
            case EndPreservation(because):
                body = {"status": {"currentStatus": {"preserveExpiryTime": None}}}
                ended = await self._patch(meta, body, subresource="status")
                self._recorder.event(machine, EventReason.PRESERVATION_ENDED, because)
                return ended
            case DeleteMachine(because):
                with MayBeGone(meta.name):
                    await self._control.delete(MACHINE, Key(meta.namespace, meta.name), uid=meta.uid)
                    self._recorder.event(machine, EventReason.DELETION_TRIGGERED, because)
            case DeleteBootstrapToken():
                await self._requests.delete_token(machine)
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, names.FINALIZER)
                with MayBeGone(meta.name):
                    await self._patch(meta, {"metadata": {"finalizers": left}})
            case _:
                assert_never(step)
        return None

    async def _on_node(self, seen: Seen, step: NodeStep, notes: Notes, node: Node | None) -> Node | None:
        """Perform one step; return the node as later steps of the pass are to take it."""
        match step:
            case NodePatch(patch):
                return await self._patch_node(node, patch)
            case NodeStatusPatch(patch):
                return await self._patch_node(node, patch, subresource="status", content_type=STRATEGIC_PATCH)
            case Drain(drain):
                meta = seen.machine.metadata
                woken = partial(
                    self._wake, Key(meta.namespace, meta.name), "its pods have been asked to leave"
                )
                self._removals.start(meta.uid, notes.drain, drain, woken, now=seen.now)
            case DeleteVolumeAttachments(attachments):
                for each in attachments:
                    with MayBeGone(each.name):
                        await self._target.delete(VOLUME_ATTACHMENT, Key("", each.name), uid=each.uid)
            case DeleteNode():
                await delete_node(self._target, step)
                notes.vm_checked_after_deletion = seen.machine.spec.provider_id
            case _:
                assert_never(step)
        return node

    async def _report(self, seen: Seen, plan: Plan, latest: ObjectMeta) -> bool:
        """Write the status if it differs from the one on the server; return whether it did. Not after a
        deletion, which has made a version that is not known here: the next pass finds what is left."""
        if any(isinstance(step, RemoveFinalizer | DeleteMachine) for step in plan.steps):
            return False
        after = machine_status(seen, plan.report, self._clock.now())
        patch = merge_patch(seen.machine.status, after)
        if patch:
            await self._patch(latest, {"status": patch}, subresource="status")
            self._tell_preserved(seen, after.current_status.preserve_expiry_time)
        return bool(patch)

    def _tell_preserved(self, seen: Seen, until: datetime | None) -> None:
        if until is not None and seen.machine.status.current_status.preserve_expiry_time is None:
            told = f"The machine is preserved until {rfc3339(until)}"
            self._recorder.event(seen.machine, EventReason.PRESERVED, told)

    async def _patch(self, meta: ObjectMeta, body: Mapping[str, Any], **how: Any) -> ObjectMeta:
        """Patch the machine only in the version that was seen: the network may deliver a request late."""
        key = Key(meta.namespace, meta.name)
        return (await self._control.patch(MACHINE, key, onto(body, meta), **how)).metadata

    async def _patch_node(self, node: Node | None, patch: Mapping[str, Any], **how: Any) -> Node:
        """Patch the node; return it as later steps of the pass are to take it: as it is now, unless another
        client has written its spec since the cache saw it.

        A patch that replaces taints names the version that was seen, and a step before it has made another.

        Raises:
            NodeGone: it was deleted meanwhile, and the cache does not show that yet. A pass at once would
                see it again, so the next one waits a moment.
        """
        assert node is not None
        meta = node.metadata
        versioned = bool(patch.get("metadata", {}).get("resourceVersion"))
        body = with_version(patch, meta.resource_version) if versioned else patch
        try:
            now = await self._target.patch(NODE, Key("", meta.name), with_uid(body, meta.uid), **how)
        except NotFound as error:
            if not error.names(meta.name):
                raise
            raise NodeGone(f"node {meta.name} is gone, and the cache does not show it yet") from None
        same = bool(now.metadata.resource_version) and (versioned or now.spec == node.spec)
        return now if same else node

    def _update(self, seen: Seen, step: UpdateVm) -> None:
        machine = structs.replace(seen.machine, status=seen.status)
        outside_of_a_pass().run(
            partial(self._calls.start, inputs=seen.inputs, last_applied=step.before),
            Key(machine.metadata.namespace, machine.metadata.name),
            machine.metadata.uid,
            Verb.UPDATE,
            lambda: self._requests.make_update(machine, step.goal),
        )

    def _call(self, seen: Seen, verb: Verb) -> None:
        machine = structs.replace(seen.machine, status=seen.status)
        key = Key(machine.metadata.namespace, machine.metadata.name)
        outside_of_a_pass().run(  # the call outlives this pass, and may write
            self._calls.start,
            key,
            machine.metadata.uid,
            verb,
            lambda: self._requests.make(
                machine, verb, max(seen.creation_timeout, seen.creation_deadline - seen.now)
            ),
            inputs=seen.inputs,
        )


async def delete_node(target: Client, step: DeleteNode) -> None:
    """Take MCM's finalizer off a node and delete it, if it is still the one that was seen. Finalizers are
    replaced as a whole: one that another client has put on since must stay."""
    key = Key("", step.name)
    with MayBeGone(step.name):
        if step.finalizers is not None:
            freed = {"metadata": {"finalizers": list(step.finalizers) or None}}
            await target.patch(NODE, key, with_version(with_uid(freed, step.uid), step.version))
        await target.delete(NODE, key, uid=step.uid)


def _first_told(plan: Plan, notes: Notes) -> bool:
    """Note the topics of a warning that is about to be sent; whether one of them is new. A warning without
    topics is always sent."""
    new = plan.topics - notes.topics
    notes.topics |= plan.topics
    return bool(new) or not plan.topics
