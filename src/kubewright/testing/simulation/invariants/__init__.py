"""What must be true at every step of every world, one readable function each.

Theory.      An invariant hears each step right after it happened and answers what is wrong, or
             nothing. What it needs to know of the past is in ``Past``, which costs the same in a large
             world as in a small one. Excuses are narrow: a harmed VM or node excuses only itself, and
             old news excuse only what was right in the world that they told of.
Where        ``vms``       machines and their VMs: one each, none forgotten, none taken away undrained
             ``replicas``  numbers: neither too many nor too few, and no word about what is not there
             ``rollouts``  what a deployment says about its rollout
             ``past``, ``history``, ``facts``   what they know
To add one   write a function ``(step, past) -> str`` and put it into ``INVARIANTS``; then break the
             product on purpose (``tests/sim/test_sim_mutations.py``) and see that it is caught: a test
             asks for a mutation for every rule.
Called by    ``run``.
"""

from collections.abc import Callable, Iterable

from kubewright.testing.simulation.invariants.past import Past as Past
from kubewright.testing.simulation.invariants.replicas import (
    a_deployment_outlives_its_sets,
    a_name_is_for_one_machine,
    a_set_keeps_its_size,
    a_set_outlives_its_machines,
    a_true_count,
    a_true_total,
    no_roll_while_paused,
    not_too_few,
    not_too_many,
    revisions_grow,
    sizes_fit_the_wish,
)
from kubewright.testing.simulation.invariants.rollouts import a_rollout_is_told, complete_is_true
from kubewright.testing.simulation.invariants.vms import (
    a_drained_vm,
    a_living_machine_keeps_its_vm,
    a_node_goes_after_its_vm,
    a_vm_on_record_stays,
    a_well_machine_is_not_given_up,
    no_vm_without_a_machine,
    no_way_back,
    one_vm_for_a_machine,
    the_finalizer_goes_last,
)
from kubewright.testing.simulation.journal import Step

Invariant = Callable[[Step, Past], str]

INVARIANTS: tuple[Invariant, ...] = (
    one_vm_for_a_machine,
    no_vm_without_a_machine,
    a_living_machine_keeps_its_vm,
    the_finalizer_goes_last,
    a_drained_vm,
    a_node_goes_after_its_vm,
    a_vm_on_record_stays,
    not_too_many,
    a_set_keeps_its_size,
    a_name_is_for_one_machine,
    sizes_fit_the_wish,
    not_too_few,
    a_true_count,
    a_true_total,
    a_set_outlives_its_machines,
    a_deployment_outlives_its_sets,
    no_roll_while_paused,
    revisions_grow,
    complete_is_true,
    a_rollout_is_told,
    no_way_back,
    a_well_machine_is_not_given_up,
)


NEED_TRUE_LISTS: frozenset[Invariant] = frozenset(
    (
        not_too_many,
        a_set_keeps_its_size,
        a_name_is_for_one_machine,
        a_true_count,
        a_true_total,
        a_set_outlives_its_machines,
        a_deployment_outlives_its_sets,
    )
)
"""Rules that a manager can break that is begun in an older world (``Plot.stale``). No API server shows it
one: our lists name no version, and are therefore answered from the newest state. If one did, machines
that are not seen would be made again, or counted wrongly, or left to the garbage collector by an owner
that goes; all other rules hold (``not_too_few`` with what such a manager cannot know)."""


def judge(step: Step, past: Past, invariants: Iterable[Invariant] = INVARIANTS) -> list[str]:
    """What is wrong after a step: one sentence for each invariant that does not hold."""
    return [f"{rule.__name__}: {wrong}" for rule in invariants if (wrong := rule(step, past))]
