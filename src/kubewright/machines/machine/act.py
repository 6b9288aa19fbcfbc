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
Called by    ``runtime.controller`` (``Machines``), put together by ``wiring``; ``machines.orphans``
             (``delete_node``), ``cli.vm`` (``filled``).
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote_plus

import structlog
from msgspec import structs

from kubewright.api.core import NODE, SECRET, Node, Secret
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, Machine, MachineStatus
from kubewright.api.meta import ObjectMeta, without_finalizer
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base import delays
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError, Retry
from kubewright.base.plan import Event
from kubewright.driver.contract import MachineRequest
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import outside_of_a_pass, with_uid, with_version
from kubewright.machines import node_marks
from kubewright.machines.caches import TOKEN_PLACE, TOKEN_PLACE_QUOTED, Caches, Shared, wants_token
from kubewright.machines.machine.decide import decide, event_of, refusal_of, status_refused
from kubewright.machines.machine.living import awaits_boot
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.memory import Memory, Notes, is_unanswered
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
    Refused,
    RemoveFinalizer,
    Seen,
    Step,
    UpdateVm,
)
from kubewright.machines.machine.states import machine_status
from kubewright.machines.settings import MachineSettings
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.volumes import Attachment
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.passes import failed
from kubewright.runtime.reports import Echoes
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound, is_refusal
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

log = structlog.get_logger(__name__)

NAME_PLACE, NAME_PLACE_QUOTED = b"<<MACHINE_NAME>>", b"%3C%3CMACHINE_NAME%3E%3E"
TOKEN_NAMESPACE = "kube-system"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


# What a driver is told.


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


def _token_key(uid: str) -> Key:
    return Key(TOKEN_NAMESPACE, token_name(uid))


def _is_token_of(machine: Machine, found: Secret) -> bool:
    """Whether the Secret of the token's name is this machine's: names are short hashes, so two machines may
    have one."""
    return found.data.get("description") == token_description(machine.metadata.name).encode()


class WriteFailed(Exception):
    """A step of this machine failed, and the next decision takes that into account. Stays in this file."""

    def __init__(self, machine: Machine, refused: Refused) -> None:
        super().__init__(refused.problem)
        self.machine, self.refused = machine, refused


class ReadRefused(Exception):
    """The API server refused to show the node of a machine that is to be given up. Never leaves this file."""

    def __init__(self, machine: Machine, problem: str) -> None:
        super().__init__(problem)
        self.machine, self.problem = machine, problem


class NodeGone(KubewrightError):
    """The node that was seen is no longer there: end the pass and look again."""

    retry: Retry = delays.OVERTAKEN


@dataclass(slots=True)
class UnderWay:
    """What the pass over a machine works with: its notes, and machine and node as the steps so far have left
    them; ``alone``: no other client has written the node between its patches."""

    meta: ObjectMeta
    notes: Notes
    node: Node | None
    alone: bool = True


class Machines(ObjectReconciler[Machine, Seen, Plan]):
    """The reconciler of Machines.

    ``busy`` says that many machines are in the queue or in work; ``wake`` enqueues a machine, for a reason;
    ``performed`` is told each plan when all of it is done.
    """

    def __init__(
        self,
        shared: Shared,
        calls: VmCalls,
        memory: Memory,
        *,
        busy: Callable[[], bool],
        wake: Callable[[Key, str], None],
        performed: Callable[[Seen, Plan], None],
    ) -> None:
        super().__init__(shared.control, shared.caches.machines, shared.recorder, finalizer=names.FINALIZER)
        self._looker = Looker(shared, calls, memory)
        self._requests = Requests(shared.caches, shared.target, shared.clock, shared.settings)
        self._memory = memory
        self._target = shared.target
        self._clock = shared.clock
        self._removals = shared.removals
        self._calls = calls
        self._busy = busy
        self._wake = wake
        self._performed = performed
        self._under_way: dict[str, UnderWay] = {}
        self.echoes = Echoes(wake)

    def forget(self, key: Key, uid: str) -> None:
        """The machine is gone for good."""
        self._memory.forget(uid)
        self._calls.forget(uid)

    async def look(self, found: Machine) -> Seen:
        """As ``Looker.look``; how many others are being replaced counts as it is in the end."""
        seen = await self._looker.look(found, busy=self._busy())
        counts = self._looker.counts(found)  # other workers may have decided meanwhile
        return seen if counts == seen.counts else replace(seen, counts=counts)

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def closer(self, seen: Seen, plan: Plan) -> Awaitable[Seen] | None:
        """Before a machine is given up, its node is read live, and then its VM's console. It counts as
        replaced from now on, before other workers decide about their machines. The console is read besides
        while its VM boots."""
        if not _fails(plan):
            return self._looker.with_console(seen) if awaits_boot(seen) and not plan.steps else None
        self._memory.begin_replacement(_key(seen.machine), self._looker.group_of(seen.machine))
        return self._closer(seen)

    async def _closer(self, seen: Seen) -> Seen:
        try:
            seen = await self._looker.with_live_node(seen)
        except ApiError as error:
            if not is_refusal(error):
                raise
            problem = f"The API server refused to show the node: {error.message}"
            raise ReadRefused(seen.machine, problem) from error
        return await self._looker.with_console(seen) if _fails(decide(seen)) else seen

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: an API server said no for now, or could not be asked.
        """
        try:
            return await super().reconcile(key)
        except WriteFailed as write:
            refused = write.refused
            return self._refused(write.machine, event_of(refused), refused.problem, Result.later(0))
        except ReadRefused as read:
            result = Result.later(delays.REFUSED)
            return self._refused(read.machine, EventReason.FAILED_READ, read.problem, result)
        finally:
            self._memory.end_replacement(key)

    async def carry_out(self, found: Machine, seen: Seen, plan: Plan) -> Result:
        """All steps, then the status.

        Raises:
            WriteFailed: a write was refused for good, or one about the node of a machine in deletion was
                not answered for long; what came before it in the plan is done.
            ApiError, TransportError: an API server failed the request for now, or could not be reached.
        """
        uid, notes = found.metadata.uid, self._looker.notes(found, seen.node, keep=bool(plan.topics))
        left = self._under_way[uid] = UnderWay(found.metadata, notes, seen.node)
        known = False
        if plan.rests is not None:
            self.echoes.begin(_key(found))
        try:
            result = await super().carry_out(found, seen, plan)
            known = left.alone and self._looker.shows_no_more(left.meta, left.node, plan.rests)
            result = result if known or plan.rests is None else Result.later(0)
        finally:
            del self._under_way[uid]
            self.echoes.end(_key(found), known=known)
        self._performed(seen, plan)
        return result

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """What succeeded ends a silence; what is refused, or not answered for long, the next pass knows."""
        meta = seen.machine.metadata
        if error is None:
            self._memory.succeeded(meta.uid, step)
            return True
        awaited = outcome.meta.deleting and isinstance(step, NodeStep | DeleteBootstrapToken)
        silent = awaited and is_unanswered(error)
        if is_refusal(error) or (silent and self._looker.note_failure(seen.machine, type(step))):
            raise WriteFailed(seen.machine, self._remember(seen.machine, step, error)) from error
        raise error

    async def report(self, found: Machine, seen: Seen, plan: Plan, outcome: Outcome) -> Result | None:
        """As every report; where the status is refused, the next pass does all else.

        Raises:
            WriteFailed: it is refused for good.
        """
        try:
            again = await super().report(found, seen, plan, outcome)
            self._under_way[found.metadata.uid].meta = outcome.meta
            return again
        except ApiError as error:
            if not is_refusal(error):
                raise
            raise WriteFailed(found, self._remember(found, None, error)) from error

    def refused(self, about: Machine, error: ApiError) -> Result:
        """A read whose refusal no decision is made of: an error as any other. Writes: ``WriteFailed``."""
        raise error

    def _remember(self, machine: Machine, step: Step | None, error: KubewrightError) -> Refused:
        refused = refusal_of(step, error, self._memory.moments.now())
        self._memory.refuse(machine.metadata.uid, refused)
        return refused

    def _refused(self, machine: Machine, reason: str, problem: str, result: Result) -> Result:
        """Say what an API server refused, or did not answer: here, and in the record of this pass."""
        log.warning("refused", machine=str(_key(machine)), reason=reason, problem=problem)
        self.recorder.event(machine, reason, problem, warning=True)
        failed(problem)
        return result

    # The status, and what users are told.

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> MachineStatus | None:
        """As ``states.machine_status``; none while the server refuses it."""
        return None if status_refused(seen) else machine_status(seen, plan.report, self._clock.now())

    def events(
        self, seen: Seen, plan: Plan, status: MachineStatus | None, *, written: bool
    ) -> Iterable[Event]:
        """The plan's milestone and warning, where its report is new; in the log, too."""
        if written and status is not None and (until := _preserved_from_now(seen, status)) is not None:
            yield Event(EventReason.PRESERVED, f"The machine is preserved until {rfc3339(until)}")
        if not written and plan.report is not None:
            return
        about = {"machine": seen.machine.metadata.name, "namespace": seen.machine.metadata.namespace}
        if (reached := plan.milestone) is not None:
            log.info(reached.message, reason=reached.reason.value, **about)
            if reached.event:
                yield Event(reached.reason, reached.message)
        notes = self._under_way[seen.machine.metadata.uid].notes
        if plan.warning is not None and _first_told(plan, notes):
            reason, message = plan.warning
            log.info(message, reason=str(reason), **about)
            yield Event(reason, message, warning=True)

    # What performs a step.

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        if isinstance(step, NodeStep):
            return self._on_node(seen, step)
        return self._on_machine(seen, step, outcome)

    def _on_machine(self, seen: Seen, step: MachineStep, outcome: Outcome) -> Effect:
        match step:
            case AddFinalizer(patch) | Annotate(patch):
                return self.patch(outcome, {"metadata": patch})
            case Call(verb):
                self._call(seen, verb)
                return None
            case Record(found, notes):
                labels = {"labels": {names.NODE_LABEL: found.node_name}}
                known = {**labels, "annotations": notes} if notes else labels
                return self.patch(outcome, {"metadata": known, "spec": {"providerID": found.provider_id}})
            case UpdateVm():
                return self._mark_and_update(seen, step, outcome)
            case EndPreservation(because):
                return self._end_preservation(seen, because, outcome)
            case DeleteMachine(because):
                return self._delete(seen, because, outcome)
            case DeleteBootstrapToken():
                return self._requests.delete_token(seen.machine)
            case RemoveFinalizer():
                return self._release(seen, outcome)

    def _on_node(self, seen: Seen, step: NodeStep) -> Effect:
        match step:
            case NodePatch(patch):
                return self._patch_node(seen, patch)
            case NodeStatusPatch(patch):
                return self._patch_node(seen, patch, subresource="status", content_type=STRATEGIC_PATCH)
            case Drain(drain):
                self._drain(seen, drain)
                return None
            case DeleteVolumeAttachments(attachments):
                return self._delete_attachments(attachments)
            case DeleteNode():
                return self._delete_node(seen, step)

    async def _end_preservation(self, seen: Seen, because: str, outcome: Outcome) -> None:
        body = {"status": {"currentStatus": {"preserveExpiryTime": None}}}
        await self.patch(outcome, body, subresource="status")
        self.recorder.event(seen.machine, EventReason.PRESERVATION_ENDED, because)

    async def _delete(self, seen: Seen, because: str, outcome: Outcome) -> None:
        """Nothing more is written: the deletion makes a version that is not known here."""
        meta = seen.machine.metadata
        with MayBeGone(meta.name):
            await self.client.delete(MACHINE, _key(seen.machine), uid=meta.uid)
            self.recorder.event(seen.machine, EventReason.DELETION_TRIGGERED, because)
        outcome.gone = True

    async def _release(self, seen: Seen, outcome: Outcome) -> None:
        meta = seen.machine.metadata
        with MayBeGone(meta.name):
            left = without_finalizer(meta.finalizers, names.FINALIZER)
            await self.patch(outcome, {"metadata": {"finalizers": left}})
        outcome.gone = True

    def _drain(self, seen: Seen, plan: DrainPlan) -> None:
        meta = seen.machine.metadata
        woken = partial(self._wake, _key(seen.machine), "its pods have been asked to leave")
        self._removals.start(meta.uid, self._under_way[meta.uid].notes.drain, plan, woken, now=seen.now)

    async def _delete_attachments(self, attachments: Iterable[Attachment]) -> None:
        for attachment in attachments:
            with MayBeGone(attachment.name):
                await self._target.delete(VOLUME_ATTACHMENT, Key("", attachment.name), uid=attachment.uid)

    async def _delete_node(self, seen: Seen, step: DeleteNode) -> None:
        await delete_node(self._target, step)
        notes = self._under_way[seen.machine.metadata.uid].notes
        notes.vm_checked_after_deletion = seen.machine.spec.provider_id

    async def _patch_node(self, seen: Seen, patch: Mapping[str, Any], **how: Any) -> None:
        """Patch the node; later steps of the pass take it as it is now, unless another client has written its
        spec since the cache saw it.

        A patch that replaces taints names the version that was seen, and a step before it has made another.

        Raises:
            NodeGone: it was deleted meanwhile, and the cache does not show that yet. A pass at once would
                see it again, so the next one waits a moment.
        """
        under_way = self._under_way[seen.machine.metadata.uid]
        node = under_way.node
        assert node is not None, "steps about a node are planned for one that was seen"
        meta = node.metadata
        versioned = bool(patch.get("metadata", {}).get("resourceVersion"))
        body = with_version(patch, meta.resource_version) if versioned else patch
        try:
            now = await self._target.patch(NODE, Key("", meta.name), with_uid(body, meta.uid), **how)
        except NotFound as error:
            if not error.names(meta.name):
                raise
            raise NodeGone(f"node {meta.name} is gone, and the cache does not show it yet") from None
        if now.metadata.resource_version and (versioned or now.spec == node.spec):
            under_way.node = now
        under_way.alone = under_way.alone and (versioned or node_marks.patched_alone(node, now, patch))

    async def _mark_and_update(self, seen: Seen, step: UpdateVm, outcome: Outcome) -> None:
        if step.patch["annotations"]:
            await self.patch(outcome, {"metadata": step.patch})
        self._update(seen, step)

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


def _key(machine: Machine) -> Key:
    return Key(machine.metadata.namespace, machine.metadata.name)


def _fails(plan: Plan) -> bool:
    return plan.report is not None and plan.report.phase is Phase.FAILED


def _preserved_from_now(seen: Seen, status: MachineStatus) -> datetime | None:
    """Until when the machine is preserved, if that begins with this status."""
    begins = seen.machine.status.current_status.preserve_expiry_time is None
    return status.current_status.preserve_expiry_time if begins else None


def _first_told(plan: Plan, notes: Notes) -> bool:
    """Note the topics of a warning that is about to be sent; whether one of them is new. A warning without
    topics is always sent."""
    new = plan.topics - notes.topics
    notes.topics |= plan.topics
    return bool(new) or not plan.topics
