"""A simulator that catches nothing is broken: deliberate bugs, each found within 200 seeds.

Each bug names the rules that must be violated because of it, and each rule is named by a bug: so every rule
is known to be able to fail. By default the search begins at a seed near the one that is known to catch the
bug; ``SIM=all`` begins at 0.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from kubewright.api.core import POD
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.base.witness import Witness
from kubewright.builtin import budgets
from kubewright.driver.contract import Driver, Instance, MachineRequest
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.kube.cache import Cache
from kubewright.kube.client import Client
from kubewright.machines.caches import Caches
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess import decide as excess_decide
from kubewright.machines.machine import act, decide, deleting, look, making, states
from kubewright.machines.machine import seen as machine_seen
from kubewright.machines.machine.act import Requests
from kubewright.machines.machine.applied import Specs
from kubewright.machines.machine.seen import AddFinalizer, Call, DeleteBootstrapToken, Plan, Report, Seen
from kubewright.machines.machine.states import Finding
from kubewright.machines.machineset import policy as set_policy
from kubewright.machines.machineset.member import MachineMember, age
from kubewright.machines.rolling import decide as rolling_decide
from kubewright.nodes.drain.volumes import Attached
from kubewright.replicas.deployment import decide as deployment_decide
from kubewright.replicas.deployment import status as deployment_status
from kubewright.replicas.objects import RemoveFinalizer
from kubewright.replicas.set import decide as set_decide
from kubewright.replicas.set import seen as set_seen
from kubewright.replicas.set.act import Creation
from kubewright.replicas.set.seen import Seen as SetSeen
from kubewright.replicas.set.seen import Wait
from kubewright.rollout import planner
from kubewright.rollout.progress import Progress
from kubewright.runtime.leader import Elector
from kubewright.wire.gvk import Key
from simulation.rules.table import OF_MACHINES
from simulation.run import Outcome, simulate
from simulation.search import plot_of
from simulation.stories import BY_NAME
from simulation.story import Story
from simulation.world import World

Patch = pytest.MonkeyPatch
SEEDS = 200
PATIENCE = 5.0
"""Seconds that a bug on purpose waits: what is wrong at once may be excused by an old state."""
BUG = "a bug on purpose"
"""The reason of a planted plan: a plan without one counts as none."""
ALL = os.environ.get("SIM") == "all"
pytestmark = pytest.mark.timeout(600)


class _Forgetful:
    """A driver that gives every VM a name of its own, and so never finds one again."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._numbers = driver, count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def create(self, request: MachineRequest) -> Instance:
        of, name = request.machine, f"{request.name}-{next(self._numbers)}"
        renamed = with_fields(of, metadata=with_fields(of.metadata, name=name))
        return await self._driver.create(replace(request, machine=renamed))


def _driven_by(driver: Callable[[Driver], Any]) -> Callable[[World], None]:
    return lambda world: setattr(world, "driver", driver(world.driver))


def _without(patch: Patch, *deciders: Callable[..., Any]) -> None:
    left = tuple(decider for decider in decide.DELETING if decider not in deciders)
    patch.setattr(decide, "DELETING", left)


def _no_doubt(patch: Patch) -> None:
    """A creation whose answer was lost counts as one that was never sent."""
    _without(patch, deleting.await_call_in_flight)
    patch.setattr(VmCalls, "doubt_until", lambda *_, **__: None)


def _random_names(patch: Patch) -> None:
    numbers = count()

    def names(of: Any, _seen: Any, _taken: Any, number: int) -> tuple[str, ...]:
        return tuple(f"{of.name}-{next(numbers):05d}" for _ in range(number))

    patch.setattr(set_decide, "new_names", names)


def _expectations_removed(patch: Patch) -> None:
    """Names are not derived from what was seen, and the set does not remember what it asked for."""
    _random_names(patch)
    made = Creation.one

    async def one(self: Creation, name: str) -> Any:
        error = await made(self, name)
        self.doubts.forget(self.owner.metadata.uid)
        return error

    patch.setattr(Creation, "one", one)


def _names_used_again(patch: Patch) -> None:
    """A set counts only the machines that it sees."""
    patch.setattr(SetSeen, "last", property(lambda self: max((m.number for m in self.members), default=0)))


def _stale_read_trusted(patch: Patch) -> None:
    """A set decides by a cache that does not show its own writes yet."""
    _random_names(patch)
    patch.setattr(Cache, "wrote", lambda *_: None)


def _not_ready_is_dead(patch: Patch) -> None:
    """The VM of a machine whose node is not ready is deleted, and the machine stays."""

    def short_timeouts(seen: Seen) -> Plan | None:
        gone = seen.node is not None and not seen.health.healthy and seen.phase == "Unknown"
        return (
            Plan((Call(Verb.DELETE),), wake=timedelta(1), because=BUG)
            if gone and not seen.vm.deleted
            else None
        )

    patch.setattr(decide, "LIVING", (short_timeouts, *decide.LIVING))


def _counts_one_more(patch: Patch) -> None:
    """A set's status counts one machine more than there is."""
    true = set_policy.MachineSets.status

    def one_more(self: Any, seen: Any, failure: Any) -> Any:
        status = true(self, seen, failure)
        return with_fields(status, replicas=status.replicas + 1) if status.replicas else status

    patch.setattr(set_policy.MachineSets, "status", one_more)


def _scales_down_the_living(patch: Patch) -> None:
    """When a set has too many machines, it deletes running ones first."""
    true = set_seen.Seen.surplus.func

    def surplus(seen: Any) -> Any:
        ranking = seen.policy.ranking(seen.set, seen.wall.timestamp(), seen.alive)
        return tuple(sorted(seen.alive, key=ranking, reverse=True)[: len(true(seen))])

    patch.setattr(set_seen.Seen, "surplus", property(surplus))


def _moved_ones_are_too_many(patch: Patch) -> None:
    """A set deletes a machine that was moved to it before its size counts the machine."""

    def surplus(seen: Any) -> Any:
        ranking = seen.policy.ranking(seen.set, seen.wall.timestamp(), seen.alive)
        return tuple(sorted(seen.alive, key=ranking)[: max(0, len(seen.alive) - seen.set.spec.replicas)])

    patch.setattr(set_seen.Seen, "surplus", property(surplus))


def _as_many_as_are_asked_for(patch: Patch) -> None:
    """The newest machines are kept free, however many there are for workload."""

    def newest(
        living: Sequence[MachineMember], _replicas: int, wanted: int, _spared: Collection[str]
    ) -> frozenset[str]:
        return frozenset(member.uid for member in sorted(living, key=age, reverse=True)[:wanted])

    patch.setattr(excess_decide, "kept_free", newest)


def _free_ones_are_like_others(patch: Patch) -> None:
    """A set that shrinks does not ask which of its machines are kept free."""
    true = set_seen.Seen.surplus.func

    def surplus(seen: Any) -> Any:
        alike = [replace(member, free=frozenset()) for member in seen.alive]
        ranking = seen.policy.ranking(seen.set, seen.wall.timestamp(), alike)
        return tuple(sorted(alike, key=ranking)[: len(true(seen))])

    patch.setattr(set_seen.Seen, "surplus", property(surplus))


def _never_frozen(patch: Patch) -> None:
    """A set makes machines again when its label has said for five seconds that it is frozen."""
    true, frozen_at = set_policy.MachineSets.blocked, dict[str, float]()

    def careless(self: Any, found: Any, limits: Any) -> Any:
        now = asyncio.get_running_loop().time()
        if names.FREEZE_LABEL not in found.metadata.labels:
            frozen_at.clear()
            return true(self, found, limits)
        since = frozen_at.setdefault(found.metadata.uid, now)
        return Wait("it has patience", PATIENCE) if now - since < PATIENCE else None

    patch.setattr(set_policy.MachineSets, "blocked", careless)


def _selected_ones_serve(patch: Patch) -> None:
    """A node that is selected for an update counts as available as long as its machine runs."""
    true = rolling_decide.selectable
    patch.setattr(
        rolling_decide, "selectable", lambda fleet, limits, _selected, _up: true(fleet, limits, 0, 0)
    )


def _vm_never_recorded_after_failure(patch: Patch) -> None:
    """The VM's provider id is never recorded."""
    patch.setattr(decide, "LIVING", tuple(p for p in decide.LIVING if p is not making.record_vm))


def _node_first(patch: Patch) -> None:
    """The Node is deleted before its VM."""
    deciders = [decider for decider in decide.DELETING if decider is not deleting.delete_node]
    deciders.insert(deciders.index(deleting.delete_vm), deleting.delete_node)
    patch.setattr(decide, "DELETING", tuple(deciders))


class _Renaming:
    """A driver whose VMs have another provider id each time that the cloud is asked."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._numbers = driver, count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def status(self, request: MachineRequest) -> Instance:
        found = await self._driver.status(request)
        return replace(found, provider_id=f"{found.provider_id}-{next(self._numbers)}")


def _too_much_surge(patch: Patch) -> None:
    """A rolling update uses more surge than it may."""
    true = planner.RollingUpdate.limits
    patch.setattr(
        planner.RollingUpdate, "limits", lambda self, replicas: true(replace(self, max_surge=3), replicas)
    )


def _never_paused(patch: Patch) -> None:
    true = planner.plan
    patch.setattr(planner, "plan", lambda fleet, *more: true(replace(fleet, paused=False), *more))


def _revisions_fall(patch: Patch) -> None:
    true = deployment_decide.next_revision
    patch.setattr(deployment_decide, "next_revision", lambda old: 100 - true(old))


def _pending_again(patch: Patch) -> None:
    """A machine whose node is missing becomes Pending, as if it had never joined."""
    true = states.report

    def report(seen: Seen, finding: Finding) -> Report:
        found = true(seen, finding)
        return replace(found, phase=Phase.PENDING) if finding is Finding.NODE_MISSING else found

    patch.setattr(states, "report", report)


def _creation_never_ends(patch: Patch) -> None:
    """The creation time-out fails machines that have been up for long."""

    def short_timeouts(seen: Seen) -> Plan | None:
        grown = seen.phase is Phase.RUNNING and seen.now > seen.created + timedelta(seconds=10)
        return Plan(report=states.report(seen, Finding.NOT_JOINED), because=BUG) if grown else None

    patch.setattr(decide, "LIVING", (short_timeouts, *decide.LIVING))


def _new_ones_count_at_once(patch: Patch) -> None:
    """A machine is available as soon as it runs, whatever its set asks for."""
    true = MachineMember.available_at
    patch.setattr(MachineMember, "available_at", lambda self, now, _patience: true(self, now, 0.0))


def _wall_clock_ages(patch: Patch) -> None:
    """The time for which a machine has been ready is read from the wall clock."""
    patch.setattr(Witness, "since", lambda _self, _key, dated: dated)
    patch.setattr(Client, "steady", lambda self: self.clock)


def _set_lets_go_early(patch: Patch) -> None:
    true = set_decide.delete_members

    def delete(seen: Any) -> Any:
        plan = true(seen)
        return replace(plan, steps=(*plan.steps, RemoveFinalizer())) if seen.has_finalizer else plan

    patch.setattr(set_decide, "delete_members", delete)


def _deployment_lets_go_early(patch: Patch) -> None:
    true = deployment_decide.delete_sets

    def delete(seen: Any) -> Any:
        plan = true(seen)
        return replace(plan, steps=(*plan.steps, RemoveFinalizer())) if plan.steps else plan

    patch.setattr(deployment_decide, "delete_sets", delete)


def _deployment_counts_one_more(patch: Patch) -> None:
    """A deployment's status calls every machine a new one."""
    policy = type(MACHINE_DEPLOYMENTS)
    true = policy.status

    def one_more(*args: Any) -> Any:
        status = true(*args)
        return with_fields(status, updated_replicas=status.replicas)

    patch.setattr(policy, "status", one_more)


def _one_rollout_for_ever(patch: Patch) -> None:
    """A report about one rollout is taken for one about the next."""
    patch.setattr(deployment_status, "is_unreported", lambda _seen: False)


def _time_is_never_over(patch: Patch) -> None:
    """The deadline of a rollout never expires."""
    verdict = deployment_status.progress

    def endless(*facts: Any) -> Progress:
        *counts, timing = facts
        return verdict(*counts, replace(timing, deadline=None))

    patch.setattr(deployment_status, "progress", endless)


def _asks_for_ever(patch: Patch) -> None:
    """A healthy machine is requeued without end."""

    def restless(seen: Seen) -> Plan | None:
        well = seen.phase is Phase.RUNNING and seen.health.healthy
        return (
            Plan((DeleteBootstrapToken(),), wake=timedelta(milliseconds=100), because=BUG) if well else None
        )

    patch.setattr(decide, "LIVING", (restless, *decide.LIVING))


def _writes_the_time(patch: Patch) -> None:
    """Machines are annotated with the time, every forty seconds."""
    pause, last = timedelta(seconds=40), dict[str, datetime]()

    def busy(seen: Seen) -> Plan | None:
        uid = seen.machine.metadata.uid
        if seen.phase is not Phase.RUNNING:
            return None
        left = last.setdefault(uid, seen.now) + pause - seen.now
        if left > timedelta(0):
            return Plan(wake=left, because=BUG)
        last[uid] = seen.now
        return Plan(
            (AddFinalizer({"annotations": {"looked-at": seen.now.isoformat()}}),), wake=pause, because=BUG
        )

    patch.setattr(decide, "LIVING", (busy, *decide.LIVING))


def _raises(patch: Patch) -> None:
    """A pass over a machine whose node is missing raises an exception."""

    def stumble(seen: Seen) -> Plan | None:
        if seen.phase is Phase.RUNNING and seen.node is None:
            raise KeyError(seen.machine.metadata.name)
        return None

    patch.setattr(decide, "LIVING", (stumble, *decide.LIVING))


def _drained_with(patch: Patch, **other: Any) -> None:
    """Every drain has another policy than it should."""
    true = machine_seen.drain_policy
    patch.setattr(machine_seen, "drain_policy", lambda *args, **how: replace(true(*args, **how), **other))


def _evictions_are_deletions(patch: Patch) -> None:
    """Pods are deleted with their grace, and no budget is asked."""

    async def evict(self: Client, key: Key, *, uid: str = "", grace: int | None = None) -> None:
        await self.delete(POD, key, uid=uid, grace=grace)

    patch.setattr(Client, "evict", evict)


def _generous_budgets(patch: Patch) -> None:
    """A budget lets one pod more go than it may."""
    true = budgets.judge

    def generous(seen: Any, now: datetime) -> Any:
        verdict = true(seen, now)
        allowed = verdict.status.disruptions_allowed + 1
        return replace(verdict, status=with_fields(verdict.status, disruptions_allowed=allowed))

    patch.setattr(budgets, "judge", generous)


def _no_limit_of_replacements(patch: Patch) -> None:
    """No machine that is replaced counts."""
    true = Caches.counts
    patch.setattr(Caches, "counts", lambda *how: replace(true(*how), replacing=0))


def _one_timeout_for_all(patch: Patch) -> None:
    """The time-outs of a machine's own spec are ignored."""
    patch.setattr(machine_seen, "effective", lambda _own, default: default)


def _a_minute_late(patch: Patch) -> None:
    """Every time-out lasts a minute longer."""
    true = Seen.due
    patch.setattr(Seen, "due", lambda self, *how: true(self, *how) + timedelta(minutes=1))


def _whichever_it_is(patch: Patch) -> None:
    """Objects are deleted by their names alone."""
    true = Client.delete

    async def delete(self: Client, kind: Any, key: Key, **how: Any) -> None:
        await true(self, kind, key, **{**how, "uid": "", "resource_version": ""})

    patch.setattr(Client, "delete", delete)


def _evicts_by_name(patch: Patch) -> None:
    """Pods are evicted by their names alone."""
    true = Client.evict

    async def evict(self: Client, key: Key, *, uid: str = "", grace: int | None = None) -> None:
        del uid
        await true(self, key, grace=grace)

    patch.setattr(Client, "evict", evict)


def _any_vm(patch: Patch) -> None:
    """The cloud is asked to delete a VM for a machine without a uid."""
    true = Requests.make

    async def make(self: Requests, machine: Any, verb: Verb, *more: Any) -> MachineRequest:
        request = await true(self, machine, verb, *more)
        stranger = with_fields(machine, metadata=with_fields(machine.metadata, uid=""))
        return replace(request, machine=stranger) if verb is Verb.DELETE else request

    patch.setattr(Requests, "make", make)


def _secrets_are_optional(patch: Patch) -> None:
    """The driver is called without a secret that is missing."""
    true = Caches.with_secrets
    patch.setattr(
        Caches,
        "with_secrets",
        lambda self, found: replace(true(self, found), secret_missing=False, problem=""),
    )


def _nothing_asked_nothing_doubted(patch: Patch) -> None:
    """Where the driver cannot be called, no creation counts as unanswered."""
    true = act.decide

    def decide_without(seen: Seen) -> Plan:
        return true(seen if seen.can_call else replace(seen, doubt_until=None))

    patch.setattr(act, "decide", decide_without)


def _refused_so_never_made(patch: Patch) -> None:
    """A driver that refuses ends the machine, whatever a creation before may have left."""
    true = act.decide

    def decide_without(seen: Seen) -> Plan:
        refused = seen.vm.error is not None and seen.vm.error.refuses and seen.machine.metadata.deleting
        return true(replace(seen, doubt_until=None) if refused else seen)

    patch.setattr(act, "decide", decide_without)


def _hashes_only(patch: Patch) -> None:
    """A VM counts as having what was applied last, although another update of it was begun since."""
    true = look.specs_of

    def compare(*given: Any) -> Specs | None:
        found = true(*given)
        return found if found is not None and found.differs else None

    patch.setattr(look, "specs_of", compare)


def _what_was_cut_off_is_forgotten(patch: Patch) -> None:
    """What a cut-off update may have put on a VM is not told to the driver."""
    patch.setattr(Specs, "before", property(lambda self: self.last))


@dataclass(frozen=True)
class Mutation:
    """One bug. All ``rules`` must be violated; ``quiet`` as ``simulate``."""

    name: str
    rules: Sequence[str]
    patch: Callable[[Patch], None] = lambda _patch: None
    prepare: Callable[[World], None] = lambda _world: None
    stories: Sequence[str] = ()
    near: int = 0
    quiet: float = 0.0


MUTATIONS = (
    Mutation("creation without idempotency key", ("one_vm_for_a_machine", "the_finalizer_goes_last"),
             prepare=_driven_by(_Forgetful), stories=("create", "delete-while-creating"), near=13),
    Mutation("finalizer dropped early", ("the_finalizer_goes_last",), lambda patch: _without(patch,
             deleting.delete_vm)),
    Mutation("drain skipped", ("a_vm_is_drained_first",), lambda patch: _without(patch, deleting.drain),
             stories=("delete-while-draining",)),
    Mutation("node left behind", ("Late",), lambda patch: _without(patch, deleting.delete_node),
             stories=("delete",)),
    Mutation("the node goes first", ("a_node_goes_after_its_vm",), _node_first),
    Mutation("a lost answer is taken for a refusal", ("no_vm_without_a_machine",), _no_doubt,
             stories=("delete-while-creating",), near=97),
    Mutation("VMs are renamed", ("a_vm_on_record_stays",), prepare=_driven_by(_Renaming),
             stories=("create",), near=3),
    Mutation("expectations removed", ("a_set_keeps_its_size",), _expectations_removed,
             stories=("create",), near=12),
    Mutation("stale read trusted", ("a_set_keeps_its_size",), _stale_read_trusted, stories=("create",),
             near=12),
    Mutation("names are used again", ("a_name_is_for_one_machine",), _names_used_again,
             stories=("zero-and-back",)),
    Mutation("too much surge", ("not_too_many", "sizes_fit_the_spec"), _too_much_surge, stories=("roll",)),
    Mutation("never paused", ("no_roll_while_paused",), _never_paused, stories=("pause-and-resume",)),
    Mutation("revisions fall", ("revisions_grow",), _revisions_fall, stories=("roll",)),
    Mutation("the VM of a machine whose node is not ready is deleted", ("a_living_machine_keeps_its_vm",), _not_ready_is_dead,
             stories=("heal",)),
    Mutation("a machine without its node is Pending again", ("no_phase_goes_back",), _pending_again, stories=("heal", "vanish"),
             near=26),
    Mutation("creation never ends", ("a_healthy_machine_is_not_failed",), _creation_never_ends, near=1),
    Mutation("a status counts one machine too many", ("a_set_counts_what_exists",), _counts_one_more),
    Mutation("a deployment's status counts one machine too many", ("a_deployment_counts_what_exists",), _deployment_counts_one_more, stories=("roll",), near=16),
    Mutation("one rollout for ever", ("complete_is_true",), _one_rollout_for_ever, stories=("stuck", "roll"), near=12),
    Mutation("time is never over", ("a_rollout_is_reported",), _time_is_never_over, stories=("stuck",)),
    Mutation("a set loses its finalizer early", ("a_set_outlives_its_machines",), _set_lets_go_early,
             stories=("delete",)),
    Mutation("a deployment loses its finalizer early", ("a_deployment_outlives_its_sets",), _deployment_lets_go_early,
             stories=("delete",)),
    Mutation("running machines are deleted first", ("not_too_few",), _scales_down_the_living,
             stories=("roll-twice",), near=1),
    Mutation("new machines count at once", ("not_too_few",), _new_ones_count_at_once,
             stories=("roll-carefully",)),
    Mutation("ages on the wall clock", ("not_too_few",), _wall_clock_ages, stories=("roll-carefully",), near=37),
    Mutation("half the time to drain", ("no_pod_is_forced_early",), lambda patch: _drained_with(patch,
             timeout=timedelta(seconds=30)), stories=("drain-in-vain",)),
    Mutation("evictions are deletions", ("no_pod_is_forced_early", "budgets_hold"), _evictions_are_deletions,
             stories=("roll-under-budget", "delete-against-budget"), near=1),
    Mutation("generous budgets", ("budgets_hold",), _generous_budgets, stories=("roll-under-budget",)),
    Mutation("all volumes at once", ("volumes_leave_one_by_one",), lambda patch: _drained_with(patch,
             one_by_one=False), stories=("drain-volumes",)),
    Mutation("no pod waits for volumes", ("volumes_move_before_the_next_pod",), lambda patch: patch.setattr(
             Caches, "volumes_of", lambda *_: Attached()), stories=("drain-volumes",), near=56),
    Mutation("volumes forgotten", ("volumes_are_detached_first",), lambda patch: _without(patch,
             deleting.detach_volumes, deleting.move_volumes), stories=("drain-volumes",)),
    Mutation("volumes have no time", ("volumes_are_detached_first",), lambda patch: _drained_with(patch,
             detach_timeout=timedelta(seconds=1)), stories=("drain-volumes",)),
    Mutation("whichever it is", ("what_was_seen_is_deleted",), _whichever_it_is, stories=("drain-volumes",)),
    Mutation("no limit of replacements", ("replacements_are_limited",), _no_limit_of_replacements, stories=("heal-in-turn",)),
    Mutation("one time-out for all", ("a_machine_has_its_time",), _one_timeout_for_all,
             stories=("heal-in-turn",)),
    Mutation("a minute late", ("a_machine_is_given_up_in_time",), _a_minute_late, stories=("heal-in-turn",), near=1),
    Mutation("moved machines are too many", ("a_moved_machine_stays",), _moved_ones_are_too_many, stories=("update",), near=1),
    Mutation("as many as are asked for", ("enough_take_workload",), _as_many_as_are_asked_for, stories=("spare-grow",)),
    Mutation("free ones are like others", ("the_free_go_first",), _free_ones_are_like_others, stories=("spare-shrink",), near=3),
    Mutation("never frozen", ("a_frozen_set_makes_no_machine",), _never_frozen, stories=("freeze",), near=1),
    Mutation("selected nodes serve", ("updates_leave_enough",), _selected_ones_serve, stories=("update",)),
    Mutation("secrets are optional", ("the_finalizer_goes_last",), _secrets_are_optional,
             stories=("secret-goes-first",)),
    Mutation("nothing asked, nothing doubted", ("the_finalizer_goes_last",), _nothing_asked_nothing_doubted,
             stories=("secret-goes-first",), near=7),
    Mutation("refused, so never made", ("the_finalizer_goes_last",), _refused_so_never_made,
             stories=("class-breaks",)),
    Mutation("evicts by name", ("what_was_seen_is_deleted",), _evicts_by_name, stories=("drain-volumes",)),
    Mutation("any VM", ("a_vm_is_deleted_for_its_machine",), _any_vm, stories=("delete",)),
    Mutation("the fence removed", ("fencing",), lambda patch: patch.setattr(Elector, "entitled", True),
             stories=("heal", "delete-while-draining"), near=16),
    Mutation("the VM is never recorded", ("Late",), _vm_never_recorded_after_failure, stories=("create",)),
    Mutation("asks for ever", ("bounded_work",), _asks_for_ever, stories=("heal",)),
    Mutation("writes the time", ("quiet_at_rest",), _writes_the_time, stories=("create",), quiet=120.0),
    Mutation("hashes only", ("Late",), _hashes_only, stories=("hot-update-and-back",)),
    Mutation("what was cut off is forgotten", ("Late",), _what_was_cut_off_is_forgotten, stories=("hot-update-and-back",)),
    Mutation("raises an exception", ("no_surprises",), _raises, stories=("heal", "vanish"), near=26),
)  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation.patch(monkeypatch)
    stories: tuple[Story, ...] = tuple(BY_NAME[name] for name in mutation.stories or BY_NAME)
    found: set[str] = set()
    near = 0 if ALL else mutation.near
    for seed in [*range(near, SEEDS), *range(near)]:
        missing = next(rule for rule in mutation.rules if rule not in found)
        outcome: Outcome = simulate(
            *plot_of(seed, stories), prepare=mutation.prepare, quiet=mutation.quiet, until=missing
        )
        found |= {violation.partition(":")[0] for violation in outcome.violations}
        if found >= set(mutation.rules):
            return
    pytest.fail(f"not caught within {SEEDS} seeds; found only {sorted(found)}")


def test_every_rule_is_violated_by_a_mutation() -> None:
    rules = {rule.name for rule in OF_MACHINES} | {
        "fencing", "quiet_at_rest", "bounded_work", "no_surprises", "Late",
    }  # fmt: skip
    assert rules - {name for mutation in MUTATIONS for name in mutation.rules} == set()
