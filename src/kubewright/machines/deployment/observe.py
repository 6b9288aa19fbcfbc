"""One MachineDeployment, its sets and their machines, as one frozen picture.

Theory.      A set is the deployment's when it controls it and the selector matches. Sizes are taken
             from the sets, numbers of machines from the machines themselves.
Invariants.  Nothing here writes. Between looking and deciding nothing awaits. A set that is being
             deleted has size 0, is never current, and its machines still count.
Called by    ``reconciler.MachineDeployments``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from kubewright.api.machine import names
from kubewright.api.machine.defaults import with_defaults
from kubewright.api.machine.names import StrategyType
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.api.machine.validate import summary, validate_deployment
from kubewright.kube.informer import Informer
from kubewright.machines.deployment.sets import revision_of
from kubewright.machines.deployment.template import identity
from kubewright.machines.machineset.member import MachineMember, MachineMembers, stamp
from kubewright.replicas.claims import WITHOUT_OWNER, read_selector
from kubewright.rollout.in_place import HELD, is_held
from kubewright.rollout.model import Fleet, Group
from kubewright.rollout.order import in_line, mcm_ranking
from kubewright.rollout.planner import InPlaceUpdate, Recreate, RollingUpdate, Strategy
from kubewright.rollout.progress import Counts
from kubewright.rollout.revisions import current_of
from kubewright.wire.gvk import Key


@dataclass(frozen=True)
class Seen:
    """A deployment and everything below it. ``deployment`` has its defaults; ``written`` is as it stands.

    ``now`` is for dates. ``time`` is for ages, on the index's clock, which does not step: seconds since the
    epoch.
    ``reported`` is when progress was last reported, on the same clock; None when it never was.
    ``best`` is the best that this process has reported of the present rollout; None when it has not yet.
    """

    written: MachineDeployment
    now: datetime
    time: float
    sets: tuple[MachineSet, ...] = ()
    strays: tuple[MachineSet, ...] = ()
    orphans: tuple[MachineSet, ...] = ()
    members: Mapping[str, tuple[MachineMember, ...]] = field(default_factory=dict)
    doubted: Mapping[str, int] = field(default_factory=dict)
    """By uid of a set, how many machines it may have made that nobody has seen yet."""
    reported: float | None = None
    best: Counts | None = None
    selector_problem: str = ""

    @cached_property
    def deployment(self) -> MachineDeployment:
        return with_defaults(self.written)

    @property
    def key(self) -> Key:
        return Key(self.written.metadata.namespace, self.written.metadata.name)

    @property
    def deleting(self) -> bool:
        return self.written.metadata.deleting

    @cached_property
    def groups(self) -> dict[str, Group]:
        """The sets as the planner sees them, by name."""
        clocks = (self.time, self.now.timestamp())
        return {
            each.metadata.name: group_of(
                each, self.members_of(each), clocks, self.doubted.get(each.metadata.uid, 0)
            )
            for each in self.sets
        }

    @cached_property
    def current(self) -> MachineSet | None:
        """The oldest set of the wanted template."""
        wanted = identity(self.deployment.spec.template)
        living = [each for each in self.sets if not each.metadata.deleting]
        found = current_of(
            ((self.groups[s.metadata.name], identity(s.spec.template)) for s in living), wanted
        )
        return self.named(found.name) if found else None

    @cached_property
    def fleet(self) -> Fleet:
        """All of it as the planner sees it."""
        current = self.current.metadata.name if self.current else None
        old = sorted(
            (group for name, group in self.groups.items() if name != current),
            key=lambda group: (group.created, group.name),
        )
        spec = self.deployment.spec
        chosen = self.groups[current] if current else None
        return Fleet(self.written.metadata.name, spec.replicas, chosen, tuple(old), spec.paused)

    @cached_property
    def counts(self) -> Counts:
        """The deployment in numbers; machines that are leaving still are replicas."""
        machines = [member for found in self.members.values() for member in found]
        return Counts(
            replicas=len(machines),
            updated=len(self.members_of(self.current)) if self.current else 0,
            ready=sum(member.alive and member.ready for member in machines),
            available=sum(sum(group.line) for group in self.groups.values()),
        )

    @cached_property
    def strategy(self) -> Strategy:
        """How old machines give way; call it only on a valid deployment."""
        strategy = self.deployment.spec.strategy
        rolling, in_place = strategy.rolling_update, strategy.in_place_update
        if strategy.type == StrategyType.IN_PLACE_UPDATE and in_place is not None:
            missing = in_place.max_unavailable
            return InPlaceUpdate(missing if missing is not None else 0)
        if strategy.type != StrategyType.ROLLING_UPDATE or rolling is None:
            return Recreate()
        surge, unavailable = rolling.max_surge, rolling.max_unavailable
        return RollingUpdate(surge if surge is not None else 1, unavailable if unavailable is not None else 0)

    @cached_property
    def problem(self) -> str:
        """Why the deployment cannot be worked on; empty when it can."""
        if errors := validate_deployment(self.deployment):
            return summary(errors)
        return self.selector_problem

    @cached_property
    def refused(self) -> str:
        """The rollout that is asked for and not done, whatever else is; empty when all is done."""
        held = isinstance(self.strategy, InPlaceUpdate) and is_held(self.fleet)
        return f"spec.strategy.type: {HELD}" if held else ""

    @property
    def selects_all(self) -> bool:
        """The selector is there but empty: it would take every machine."""
        selector = self.written.spec.selector
        return selector is not None and not (selector.match_labels or selector.match_expressions)

    def members_of(self, machine_set: MachineSet) -> tuple[MachineMember, ...]:
        """The machines of one set."""
        return self.members.get(machine_set.metadata.uid, ())

    def named(self, name: str) -> MachineSet:
        """One of the sets."""
        return next(each for each in self.sets if each.metadata.name == name)


def observe(
    written: MachineDeployment,
    sets: Informer[MachineSet],
    index: MachineMembers,
    now: datetime,
    told: tuple[float | None, Counts | None] = (None, None),
) -> Seen:
    """The picture of one deployment; ``told`` is ``Seen.reported`` and ``Seen.best``."""
    meta = written.metadata
    selector, problem = read_selector(written.spec.selector)
    if not problem and not selector.matches(written.spec.template.metadata.labels):
        problem = "spec.selector: does not match the labels of spec.template"
    ours = sets.by("owner", meta.uid)
    orphans = sets.by(WITHOUT_OWNER, meta.namespace)
    return Seen(
        written,
        now,
        index.time(),
        sets=tuple(each for each in ours if meta.deleting or selector.matches(each.metadata.labels)),
        strays=tuple(
            each for each in ours if not meta.deleting and not selector.matches(each.metadata.labels)
        ),
        orphans=tuple(
            each for each in orphans if not each.metadata.deleting and selector.matches(each.metadata.labels)
        ),
        members={each.metadata.uid: index.owned_by(each.metadata.uid) for each in ours},
        doubted={each.metadata.uid: index.doubted(each.metadata.uid) for each in ours},
        reported=told[0],
        best=told[1],
        selector_problem=problem,
    )


def group_of(
    machine_set: MachineSet, members: tuple[MachineMember, ...], clocks: tuple[float, float], doubted: int = 0
) -> Group:
    """A set and its machines as the planner sees them.

    ``clocks`` is the time for ages and the time for dates (``Seen.time``, ``Seen.now``).
    ``doubted`` machines may exist, though nobody has seen them: they take up room, and serve nobody.
    """
    meta, patience = machine_set.metadata, machine_set.spec.min_ready_seconds
    line = [member for member in members if member.alive]
    now, wall = clocks
    up = [member.available_at(now, patience) for member in line]
    if any(up) and not all(up):  # else all orders look the same, and this one is spared the sorting
        up = [member.available_at(now, patience) for member in in_line(line, mcm_ranking(wall))]
    return Group(
        meta.name,
        created=stamp(meta.creation_timestamp) or 0.0,
        size=0 if meta.deleting else machine_set.spec.replicas,
        line=tuple(up),
        leaving=len(members) - len(line) + doubted,
        young=sum(member.up for member in line) - sum(up),
        goal=_number(meta.annotations, names.DESIRED_REPLICAS_ANNOTATION),
        ceiling=_number(meta.annotations, names.MAX_REPLICAS_ANNOTATION),
        revision=revision_of(meta.annotations).number,
        settled=machine_set.status.observed_generation >= meta.generation and not meta.deleting,
    )


def _number(annotations: Mapping[str, str], key: str) -> int | None:
    found = names.integer(annotations, key, -1)
    return found if found >= 0 else None
