"""Look at one set and all its members, and remember what cannot be seen.

Theory.      Everything is read from caches that already show our own writes. A look also ends the doubts
             about members that the cache shows by now (``MemberIndex.doubted``).
Invariants.  Nothing here writes to a server. Between looking and deciding nothing awaits.
Called by    ``wiring``.
"""

from dataclasses import dataclass, field
from typing import Any, Generic

from kubewright.api.meta import integer
from kubewright.base.clock import Clock
from kubewright.base.plan import Awaited
from kubewright.kube.informer import Informer
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import SPACE, M, S, SetObject, contradicts_template, read_selector
from kubewright.replicas.set.seen import Seen, SetPolicy, Wait
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import Selector

MAX_TAKEN = 1000
"""Names of others' objects that are remembered per set; more are forgotten, which costs one request."""

RESIZE_SECONDS = 5.0
"""How long a set waits for its deployment to resize it, when its size was computed for another
desired number of the deployment than that of now."""


@dataclass(slots=True)
class Memory:
    """What a process remembers of one set between passes; losing it costs requests and events, never safety.

    ``taken`` holds names that others have. ``contradiction`` says how the set's size contradicts its owner
    (``size_contradiction``), ``since`` when that was noticed.
    """

    taken: set[str] = field(default_factory=set)
    contradiction: str = ""
    since: float = 0.0

    def pause(self, contradiction: str, now: float, seconds: float) -> Wait | None:
        """Give the owner ``seconds`` to write the size anew; None when there is nothing to wait for."""
        if contradiction != self.contradiction:
            self.contradiction, self.since = contradiction, now
        remaining = self.since + seconds - now
        if not contradiction or remaining <= 0:
            return None
        sized = Awaited("its deployment to size it", "see the events of the deployment")
        return Wait(contradiction, remaining, sized)

    def belongs_to_another(self, name: str) -> None:
        """Never try this name again."""
        if len(self.taken) >= MAX_TAKEN:
            self.taken.clear()
        self.taken.add(name)


@dataclass(frozen=True, slots=True)
class Looker(Generic[S, M]):
    """Looks at sets. ``owners`` is the cache of their owners, where the policy names any."""

    policy: SetPolicy[S, M, Any]
    index: MemberIndex[Any, M]
    owners: Informer[Any] | None
    clock: Clock

    def look(self, found: S, memory: Memory, pause: Wait | None = None) -> Seen[S, M]:
        """What is seen of one set; ``pause`` is for decisions only, no status tells of it."""
        meta, index, around = found.metadata, self.index, self.policy.look(found)
        selector, problem = read_selector(found.spec.selector)
        members: list[M] = []
        unselected: list[M] = []
        keeps = self.policy.keeps_controlled
        for member in index.owned_by(meta.uid):
            (members if keeps or selector.matches(member.labels) else unselected).append(member)
        return Seen(
            self.policy,
            found,
            index.time(),
            self.clock.now(),
            members=tuple(members),
            unselected=tuple(unselected),
            orphans=tuple(
                member
                for member in index.without_controller(meta.namespace)
                if member.alive and selector.matches(member.labels) and self.policy.adopts(found, member)
            ),
            problem=problem or self._problem(found, selector),
            doubts=index.doubted(meta.uid),
            taken=frozenset(memory.taken),
            pause=pause,
            blocked=self.policy.blocked(found, around),
            number=self._number(meta.uid),
            around=around,
        )

    def pause(self, found: S, memory: Memory) -> Wait | None:
        """Why the set neither grows nor shrinks now: its size is for another desired size of its owner."""
        contradiction = size_contradiction(self.policy, found, self._owner(found))
        return memory.pause(contradiction, self.clock.monotonic(), RESIZE_SECONDS)

    def _owner(self, found: S) -> SetObject | None:
        reference = found.metadata.controller
        if self.owners is None or reference is None or reference.kind != self.owners.kind.resource.kind:
            return None
        return self.owners.get(Key(found.metadata.namespace, reference.name))

    def _number(self, uid: str) -> int:
        if self.policy.number_annotation:
            return self.index.last_number(uid)
        return self.clock.random.randrange(SPACE)

    def _problem(self, found: S, selector: Selector) -> str:
        """Why the set is not reconciled; empty when it is."""
        labels = found.spec.template.metadata.labels
        return self.policy.validate(found) or contradicts_template(found.spec.selector, selector, labels)


def size_contradiction(policy: SetPolicy[S, M, Any], found: S, owner: SetObject | None) -> str:
    """How the set's size contradicts what its owner wants by now; empty when it does not.

    An annotation beside the size says which desired size of the owner it was computed for. If that is not
    the owner's of now (a process has died in between, or a request has arrived late), the set would delete
    members that the owner still wants.
    """
    reference = found.metadata.controller
    if reference is None or owner is None or owner.metadata.uid != reference.uid:
        return ""
    wanted = policy.desired(owner)
    sized_for = integer(found.metadata.annotations, policy.desired_annotation, -1)
    if sized_for in (-1, wanted) or owner.metadata.deleting:
        return ""
    computed = f"its own was computed for {sized_for} {policy.words.many}"
    return f"it waits for a new size: {computed}, its deployment wants {wanted}"
