"""Bugs planted against the rules of nested control planes: each rule must notice its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from kubewright.controlplanes.certificates import decide as certificates
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.component import decide, look, obstacles, rollout, status
from kubewright.controlplanes.component.decide import Apply, Plan, Remove, RemoveFinalizer, Replace
from kubewright.controlplanes.component.seen import Seen
from kubewright.testing.simulation.controlplanes.rules import Rules
from kubewright.testing.simulation.controlplanes.stories import BY_NAME, run
from kubewright.testing.simulation.world import Plot

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.timeout(600)
BUG = "a bug on purpose"


def forget_to_ask(patch: Patch) -> None:
    """A component is ready when what its spec asks for is applied, whatever its probes say."""
    patch.setattr(status, "_instances", lambda _seen: None)


def make_authorities_anew(patch: Patch) -> None:
    """An authority that is gone is made again, as what it signs is."""
    patch.setattr(certificates, "_signed_by", lambda _wanted, _authority: False)


def own_everything(patch: Patch) -> None:
    """Whatever is found under a name that is wanted counts as our own."""
    patch.setattr(Found, "owned_by", lambda _self, _owner: True)


def sleep_for_good(patch: Patch) -> None:
    """A component that should have no instance is removed."""
    true = decide._applied

    def applied(seen: Seen) -> Plan | None:
        plan = true(seen)
        asleep = (
            plan is not None and any(isinstance(each, Apply) for each in plan.steps) and not seen.replicas
        )
        return Plan((Remove(False),), because=BUG) if asleep else plan

    _instead(patch, "_applied", applied)


def let_go_at_once(patch: Patch) -> None:
    """The finalizer goes when the end of what runs was asked for."""
    true = decide._deleted

    def deleted(seen: Seen) -> Plan:
        plan = true(seen)
        asked = any(isinstance(each, Remove) for each in plan.steps)
        return replace(plan, steps=(*plan.steps, RemoveFinalizer()), silent=True) if asked else plan

    patch.setattr(decide, "_deleted", deleted)


def work_for_others(patch: Patch) -> None:
    """Objects that another program manages are worked on."""
    patch.setattr(decide, "MANAGED_BY_ANNOTATION", "nothing")
    patch.setattr(look.cluster_names, "MANAGED_BY_ANNOTATION", "nothing")


def work_in_the_pause(patch: Patch) -> None:
    patch.setattr(look, "pause_of", lambda _meta, _plane, _cluster: None)


def start_without_needs(patch: Patch) -> None:
    """Components start whether or not what they need is there."""
    patch.setattr(
        obstacles, "_CHECKS", tuple(each for each in obstacles._CHECKS if each is not obstacles._dependencies)
    )


def end_in_any_order(patch: Patch) -> None:
    patch.setattr(decide, "_ends_first", lambda _seen: "")


def replace_all_at_once(patch: Patch) -> None:
    """Each instance that is outdated is replaced in one pass."""

    def rolled_out(seen: Seen) -> Plan | None:
        if seen.workload is None:
            return None
        steps = tuple(Replace(each.ordinal) for each in rollout.outdated(seen.workload, seen.running))
        return Plan(steps, because=BUG) if steps else None

    _instead(patch, "_rolled_out", rolled_out)


def _instead(patch: Patch, name: str, other: Callable[[Seen], Plan | None]) -> None:
    true = getattr(decide, name)
    patch.setattr(decide, "_DECIDERS", tuple(other if each is true else each for each in decide._DECIDERS))


@dataclass(frozen=True)
class Bug:
    """One bug, and the story in which its rule must notice it."""

    plant: Callable[[Patch], None]
    story: str


BUGS: Mapping[str, Bug] = {
    "nothing_is_ready_that_does_not_answer": Bug(forget_to_ask, "up"),
    "no_authority_is_replaced": Bug(make_authorities_anew, "authority-lost"),
    "a_users_secret_stays": Bug(own_everything, "own-leaf"),
    "etcds_data_is_kept": Bug(sleep_for_good, "asleep-and-awake"),
    "nothing_outlives_its_component": Bug(let_go_at_once, "gone"),
    "what_others_manage_is_left_alone": Bug(work_for_others, "handed-over"),
    "nothing_of_a_paused_plane_is_touched": Bug(work_in_the_pause, "paused"),
    "what_starts_finds_what_it_needs": Bug(start_without_needs, "up-apiserver-first"),
    "what_ends_has_what_it_needs": Bug(end_in_any_order, "gone-backwards"),
    "one_at_a_time": Bug(replace_all_at_once, "two-servers"),
}


@pytest.mark.parametrize("rule", BUGS)
def test_a_planted_bug_violates_its_rule(rule: str, monkeypatch: Patch) -> None:
    bug = BUGS[rule]
    bug.plant(monkeypatch)
    found = run(BY_NAME[f"control-plane-{bug.story}"], Plot(seed=1)).violations
    assert any(each.startswith(f"{rule}:") for each in found), found


def test_every_rule_has_a_planted_bug() -> None:
    assert {rule.__name__ for rule in Rules().all[1:]} == set(BUGS)
