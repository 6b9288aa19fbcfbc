"""What must be true at every step of every world, one readable function each.

Theory.      An invariant gets each step right after it happened and answers what is wrong, or
             nothing. What it needs to know of the past is in ``Past``, which costs the same in a large
             world as in a small one. Exceptions are narrow: a fault of a VM or node excuses only what
             happens to that one; staleness excuses only what was right in the state that was received.
Where        ``vms``       machines and their VMs: one each, none forgotten, none taken away undrained
             ``replicas``  numbers, in rollouts and updates in place too; statuses count only what exists
             ``drains``    pods: asked to leave in their order, and removed only when their time is up
             ``timeouts``  when machines are Failed, and how many are replaced at once
             ``past``, ``history``, ``facts``   what the rules read
To add one   write a function ``(step, past) -> str`` and put it into ``INVARIANTS``; then break the
             product on purpose (``tests/sim/test_sim_mutations.py``) and see that it is caught: a test
             asks for a mutation for every rule.
Called by    ``run``.
"""

from collections.abc import Callable, Iterable

from simulation.invariants.drains import (
    budgets_hold,
    no_pod_is_forced_early,
    volumes_are_detached_first,
    volumes_leave_one_by_one,
    volumes_move_before_the_next_pod,
    what_was_seen_is_deleted,
)
from simulation.invariants.past import Past as Past
from simulation.invariants.replicas import (
    a_deployment_counts_what_exists,
    a_deployment_outlives_its_sets,
    a_frozen_set_makes_no_machine,
    a_moved_machine_stays,
    a_name_is_for_one_machine,
    a_rollout_is_reported,
    a_set_counts_what_exists,
    a_set_keeps_its_size,
    a_set_outlives_its_machines,
    complete_is_true,
    enough_take_workload,
    no_roll_while_paused,
    not_too_few,
    not_too_many,
    revisions_grow,
    sizes_fit_the_spec,
    the_free_go_first,
    updates_leave_enough,
)
from simulation.invariants.timeouts import (
    a_machine_has_its_time,
    a_machine_is_given_up_in_time,
    replacements_are_limited,
)
from simulation.invariants.vms import (
    a_healthy_machine_is_not_failed,
    a_living_machine_keeps_its_vm,
    a_node_goes_after_its_vm,
    a_vm_is_drained_first,
    a_vm_on_record_stays,
    no_phase_goes_back,
    no_vm_without_a_machine,
    one_vm_for_a_machine,
    the_finalizer_goes_last,
)
from simulation.journal import Step

Invariant = Callable[[Step, Past], str]

INVARIANTS: tuple[Invariant, ...] = (
    one_vm_for_a_machine,
    no_vm_without_a_machine,
    a_living_machine_keeps_its_vm,
    the_finalizer_goes_last,
    a_vm_is_drained_first,
    a_node_goes_after_its_vm,
    a_vm_on_record_stays,
    not_too_many,
    a_set_keeps_its_size,
    a_frozen_set_makes_no_machine,
    a_name_is_for_one_machine,
    sizes_fit_the_spec,
    not_too_few,
    enough_take_workload,
    the_free_go_first,
    a_set_counts_what_exists,
    a_deployment_counts_what_exists,
    a_set_outlives_its_machines,
    a_deployment_outlives_its_sets,
    no_roll_while_paused,
    revisions_grow,
    complete_is_true,
    a_rollout_is_reported,
    no_phase_goes_back,
    a_healthy_machine_is_not_failed,
    no_pod_is_forced_early,
    budgets_hold,
    volumes_leave_one_by_one,
    volumes_move_before_the_next_pod,
    volumes_are_detached_first,
    what_was_seen_is_deleted,
    replacements_are_limited,
    a_machine_has_its_time,
    a_machine_is_given_up_in_time,
    updates_leave_enough,
    a_moved_machine_stays,
)


NEED_FRESH_LISTS: frozenset[Invariant] = frozenset(
    (
        not_too_many,
        a_set_keeps_its_size,
        a_name_is_for_one_machine,
        sizes_fit_the_spec,
        enough_take_workload,
        the_free_go_first,
        a_set_counts_what_exists,
        a_deployment_counts_what_exists,
        a_set_outlives_its_machines,
        a_deployment_outlives_its_sets,
        revisions_grow,
        replacements_are_limited,
    )
)
"""Rules that a manager may break whose first lists are stale (``Plot.stale``). No API server answers so: our
lists name no version, and are therefore answered from the newest state. If a server did, machines and sets
that a list does not show would be made again, or counted wrongly, or left to the garbage collector by an
owner that is deleted, and a deployment would go back to the revision before; all other rules hold
(``not_too_few`` with what such a manager cannot know)."""


def judge(step: Step, past: Past, invariants: Iterable[Invariant] = INVARIANTS) -> list[str]:
    """What is wrong after a step: one sentence for each invariant that does not hold."""
    return [f"{rule.__name__}: {wrong}" for rule in invariants if (wrong := rule(step, past))]
