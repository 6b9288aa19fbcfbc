"""Create members, each once.

Theory.      A name is in doubt from before its creation is sent until the doubt is resolved. An answer that
             proves that nothing happened resolves it, unless an earlier attempt left it; and so does
             the member itself, once the cache shows it. Everything else (a broken connection, a
             deadline, a server error, our own cancellation) leaves the doubt, and the next pass asks
             again with the same name, before it creates anything else. What a policy creates before
             the member is discarded when the member was refused and cannot exist.
Invariants.  At most one member exists per name; the answer ``AlreadyExists`` is looked into, since
             another owner may have the name, and then the set takes another one.
Called by    ``act.Actor``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError, unanswered
from kubewright.replicas.doubts import Creations
from kubewright.replicas.effects import slow_start
from kubewright.replicas.objects import S
from kubewright.replicas.set.look import Memory
from kubewright.replicas.set.outcome import FAILED_CREATE, Outcome, Reporter
from kubewright.replicas.set.policy import SetPolicy
from kubewright.wire.errors import AlreadyExists, ApiError, Forbidden, NotFound
from kubewright.wire.gvk import Key


@dataclass(slots=True)
class Creation(Generic[S]):
    """The creations of one pass for one set."""

    policy: SetPolicy[S, Any, Any]
    client: Client
    owner: S
    memory: Memory
    doubts: Creations
    created: list[str] = field(default_factory=list)

    async def one(self, name: str) -> KubewrightError | None:
        """Create the member ``name``. Returns the error when it was not created, None when it was."""
        in_doubt_before = self.doubts.creating(self._uid, name, self.client.clock.monotonic())
        try:
            await self.policy.create(self.client, self.owner, name)
        except AlreadyExists as error:
            return await self._check_owner(name, error)
        except (ApiError, TransportError) as error:
            if not unanswered(error) and not in_doubt_before:  # it says nothing about earlier attempts
                await self._give_up(name)
            return error
        self.doubts.resolved(self._uid, name)
        self.created.append(name)
        return None

    async def _give_up(self, name: str) -> None:
        """No member of this name exists, and none will. The doubt ends once the attempt's other objects are
        deleted."""
        if self.policy.discard is not None:
            try:
                await self.policy.discard(self.client, self.owner, name)
            except KubewrightError:
                return
        self.doubts.resolved(self._uid, name)

    async def _check_owner(self, name: str, error: AlreadyExists) -> KubewrightError:
        """Find out which owner has the name. If our set has, the doubt stays until the cache shows it."""
        try:
            found = await self.client.get(self.policy.member_kind, Key(self.owner.metadata.namespace, name))
        except NotFound as missing:
            if not missing.names(name):
                return missing
            if self.policy.discard is not None:  # another owner has what the member needs before it
                self.memory.belongs_to_another(name)
            await self._give_up(name)
            return error
        except KubewrightError as unknown:
            return unknown
        controller = found.metadata.controller
        if controller is None or controller.uid != self.owner.metadata.uid:
            self.memory.belongs_to_another(name)
            await self._give_up(name)
        return error

    @property
    def _uid(self) -> str:
        return self.owner.metadata.uid


async def create(creation: Creation[S], names: Sequence[str], reporter: Reporter, outcome: Outcome) -> None:
    """Create members of these names by slow start, and send events about it.

    A name that is taken, and a namespace that is being deleted, are not reported as failures. But the key is
    retried with backoff, until the next pass sees more, or the set is deleted.
    """
    errors = await slow_start(names, creation.one)
    reporter.created(creation.created)
    outcome.errors += (error for error in errors if _is_no_failure(error))
    failures = [error for error in errors if not _is_no_failure(error)]
    reporter.failed(FAILED_CREATE, failures)
    outcome.failed(FAILED_CREATE, failures)


def _is_no_failure(error: KubewrightError) -> bool:
    """Nothing to tell users of: the name is taken, or the namespace goes, and the set with it."""
    return isinstance(error, AlreadyExists) or (isinstance(error, Forbidden) and error.namespace_ends)
