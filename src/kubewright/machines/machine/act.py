"""Perform a machine's plan: send its steps to the API servers and the driver, then write the status.

Theory.      Steps run in order and stop at the first failure; the status is written after them,
             in one patch, when it says something new. Every patch of the machine carries the uid and
             the resourceVersion of what was seen: a later machine of the same name is never touched, and
             a patch that the network delivers a minute late changes nothing.
             What a driver is told is made when its call begins, beside the workers: the class and its secrets
             as they are then, and the user data filled in. A class's secret holds ``userData`` once for all
             machines; what differs per machine stands in placeholders. A bootstrap token is made for
             creations only, and only when a placeholder asks for one. Its id is a hash of the machine's uid,
             so that a machine finds its own token again after a restart, and two machines that join at the
             same time practically never share one; its end is moved with every try. A Secret of that name
             whose description tells of another machine is neither changed nor deleted.
Invariants.  No PUT. No step waits for a driver or a pod. A refused eviction is not an error. A write that
             the server refuses for good ends the pass as ``WriteFailed``; the next pass decides with that
             (``decide.RULES``). The event of a report is sent when the status changes, not in every pass.
             Secrets go into the request and nowhere else, and are never logged. No request is made without
             the class's secrets: a driver could find credentials of another account elsewhere.
Called by    ``reconciler.Machines``; ``machines.orphans`` (``delete_node``), ``cli.vm`` (``filled``).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, assert_never
from urllib.parse import quote_plus

import structlog
from msgspec import structs

from kubewright.api.core import NODE, SECRET, Node, Secret
from kubewright.api.diff import merge_patch
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base import delays
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError, Retry
from kubewright.driver.contract import MachineRequest
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone, TransportError
from kubewright.kube.patches import onto, outside_of_a_pass, with_uid, with_version
from kubewright.machines.caches import TOKEN_PLACE, TOKEN_PLACE_QUOTED, Caches, Shared, wants_token
from kubewright.machines.machine.decide import status_refused
from kubewright.machines.machine.memory import Notes, is_unanswered
from kubewright.machines.machine.seen import (
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
    Seen,
    Step,
    UpdateVm,
)
from kubewright.machines.machine.states import machine_status
from kubewright.machines.settings import MachineSettings
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound, is_refusal
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH


class Incomplete(KubewrightError):
    """What a driver must be told is not there, or not this machine's; the next pass says so, and waits."""


class Requests:
    """Makes requests; ``target`` is where the VMs' kubelets will join."""

    def __init__(self, caches: Caches, target: Client, clock: Clock, settings: MachineSettings) -> None:
        self._caches = caches
        self._target = target
        self._clock = clock
        self._settings = settings

    async def make(self, machine: Machine, verb: Verb, valid_for: timedelta) -> MachineRequest:
        """The request for a call. ``valid_for`` is how long a token must be valid.

        Raises:
            Incomplete: the class or a secret has gone since the call was planned, or the token is another's.
            ApiError, TransportError: the token could not be made.
        """
        found = self._caches.class_of(machine)
        machine_class, creates = found.machine_class, verb is Verb.ENSURE
        if machine_class is None or found.secret_missing or (creates and found.problem):
            raise Incomplete(found.problem)
        secret = found.secret
        if creates and (raw := secret.data.get("userData")):
            token = await self._token(machine, valid_for) if wants_token(raw) else ""
            complete = filled(raw, machine.metadata.name, token)
            secret = Secret(data={**secret.data, "userData": complete})
        return MachineRequest(machine, machine_class, secret)

    async def make_update(self, machine: Machine, goal: Mapping[str, Any]) -> MachineRequest:
        """The request for an update: by the class, but what the VM is to be is ``goal``.

        Raises:
            Incomplete: the class or a secret has gone since the update was planned.
        """
        request = await self.make(machine, Verb.UPDATE, timedelta(0))
        aimed = structs.replace(request.machine_class, provider_spec=goal)
        return replace(request, machine_class=aimed)

    async def delete_token(self, machine: Machine) -> None:
        """Delete the machine's token, if there is one; that of a machine with the same token id stays."""
        key = _token_key(machine.metadata.uid)
        with MayBeGone(key.name):
            found = await self._target.get(SECRET, key)
            if _is_token_of(machine, found):
                await self._target.delete(SECRET, key, uid=found.metadata.uid)

    async def _token(self, machine: Machine, valid_for: timedelta) -> str | None:
        if not self._settings.joins:
            return None
        uid, ahead = machine.metadata.uid, timedelta(seconds=self._target.skew.ahead)
        until = self._clock.now() - ahead + valid_for  # by the clock of the server that checks it
        key, secret = _token_key(uid), token_secret(self._clock)
        data = token_data(machine.metadata.name, uid, secret, until, self._settings.token_groups)
        body = {"metadata": {"name": key.name}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        try:
            await self._target.create(SECRET, body, namespace=key.namespace)
        except AlreadyExists:
            found = await self._target.get(SECRET, key)
            if not _is_token_of(machine, found):
                raise Incomplete(f"Secret {key} is the bootstrap token of another machine") from None
            later = with_uid({"stringData": {"expiration": rfc3339(until)}}, found.metadata.uid)
            secret = (await self._target.patch(SECRET, key, later)).data.get("token-secret", b"").decode()
        return f"{token_id(uid)}.{secret}"


def _token_key(uid: str) -> Key:
    return Key(TOKEN_NAMESPACE, token_name(uid))


def _is_token_of(machine: Machine, found: Secret) -> bool:
    """Whether the Secret of the token's name is this machine's: names are short hashes, so two machines may
    have one."""
    return found.data.get("description") == token_description(machine.metadata.name).encode()


NAME_PLACE, NAME_PLACE_QUOTED = b"<<MACHINE_NAME>>", b"%3C%3CMACHINE_NAME%3E%3E"
TOKEN_NAMESPACE = "kube-system"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def filled(user_data: bytes, machine: str, token: str | None) -> bytes:
    """The user data of one machine.

    ``token`` is ``id.secret``, or empty when none is wanted; None: there is no cluster to join, and the
    placeholder stays.
    """
    out = user_data.replace(NAME_PLACE, machine.encode()).replace(
        NAME_PLACE_QUOTED, quote_plus(machine).encode()
    )
    if token is None:
        return out
    return out.replace(TOKEN_PLACE, token.encode()).replace(TOKEN_PLACE_QUOTED, quote_plus(token).encode())


def token_id(uid: str) -> str:
    """Six characters of ``[a-z0-9]`` for a machine's uid."""
    number, letters = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big"), []
    for _ in range(6):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def token_name(uid: str) -> str:
    """The name of the Secret that holds a machine's token."""
    return f"bootstrap-token-{token_id(uid)}"


def token_secret(clock: Clock) -> str:
    """Sixteen random characters."""
    return "".join(clock.random.choice(_ALPHABET) for _ in range(16))


def token_description(machine: str) -> str:
    """By which a token Secret is known as that of this machine, whatever other machine shares its id."""
    return f'A bootstrap token for machine "{machine}" generated by MachineControllerManager.'


def token_data(machine: str, uid: str, secret: str, expires: datetime, groups: str) -> Mapping[str, str]:
    """The ``stringData`` of a token Secret."""
    data = {
        "description": token_description(machine),
        "token-id": token_id(uid),
        "token-secret": secret,
        "expiration": rfc3339(expires),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    }
    return {**data, "auth-extra-groups": groups} if groups else data


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
