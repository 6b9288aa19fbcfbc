"""Make machines, each once.

Theory.      A name is in doubt from before its creation is sent until it is settled. An answer that
             proves that nothing happened settles it, unless an earlier attempt left it; and so does
             the machine itself, once the cache shows it. Everything else (a broken connection, a
             deadline, a server error, our own cancellation) leaves the doubt, and the next pass asks
             again with the same name, before it makes anything else.
Invariants.  At most one machine exists per name; the answer ``AlreadyExists`` is looked into, since
             the name may also belong to a stranger, and then another one is taken.
Called by    ``act.Actor``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, MachineSet
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError, unanswered
from kubewright.machines.machineset.observe import Memory
from kubewright.machines.machineset.outcome import Outcome, tell_done, tell_failed
from kubewright.machines.machineset.template import new_machine
from kubewright.replicas.batches import slow_start
from kubewright.runtime.events import Teller
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Cause of a refusal that will stay one: the namespace is being deleted and the set with it."""


@dataclass(slots=True)
class Making:
    """The creations of one pass for one set."""

    client: Client
    clock: Clock
    machine_set: MachineSet
    memory: Memory
    made: list[str] = field(default_factory=list)

    async def one(self, name: str) -> KubewrightError | None:
        """Make the machine ``name``; answers why it was not made."""
        asked_before = name in self.memory.doubts
        self.memory.doubts[name] = self.clock.monotonic()
        try:
            await self.client.create(MACHINE, new_machine(self.machine_set, name))
        except AlreadyExists as error:
            return await self._whose(name, error)
        except (ApiError, TransportError) as error:
            if not unanswered(error) and not asked_before:  # it says nothing about earlier attempts
                self.memory.doubts.pop(name, None)
            return error
        self.memory.doubts.pop(name, None)
        self.made.append(name)
        return None

    async def _whose(self, name: str, error: AlreadyExists) -> KubewrightError:
        """The name is taken. By us: the cache lags, and the doubt stays until it does not."""
        try:
            found = await self.client.get(MACHINE, Key(self.machine_set.metadata.namespace, name))
        except NotFound:
            self.memory.doubts.pop(name, None)
            return error
        except KubewrightError as unknown:
            return unknown
        controller = found.metadata.controller
        if controller is None or controller.uid != self.machine_set.metadata.uid:
            self.memory.belongs_to_another(name)
        return error


async def make(making: Making, new: Sequence[str], at_once: int, recorder: Teller, outcome: Outcome) -> None:
    """Make machines of these names by slow start, and tell of it.

    A name that is taken is no failure to tell of, but ends the pass: the next one sees more.
    """
    errors = await slow_start(new, making.one, at_once)
    about = making.machine_set
    tell_done(recorder, about, EventReason.SUCCESSFUL_CREATE, making.made)
    outcome.errors += (error for error in errors if isinstance(error, AlreadyExists))
    failures = [e for e in errors if not isinstance(e, AlreadyExists) and not _namespace_ends(e)]
    tell_failed(recorder, about, EventReason.FAILED_CREATE, failures, outcome)


def _namespace_ends(error: KubewrightError) -> bool:
    return isinstance(error, ApiError) and any(
        cause.get("reason") == NAMESPACE_TERMINATING for cause in error.causes
    )
