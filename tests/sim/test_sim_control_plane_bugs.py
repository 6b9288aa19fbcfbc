"""Bugs planted against the rules of nested control planes: each rule must notice its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes import members
from kubewright.controlplanes.component import decide, look, obstacles, status
from kubewright.controlplanes.component import workload as rollout
from kubewright.controlplanes.component.decide import Apply, Plan, Remove, RemoveFinalizer, Replace
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.snapshots import act as carried_out
from kubewright.controlplanes.snapshots.restoring import Seen as Restore
from kubewright.controlplanes.snapshots.stores import FolderStore
from kubewright.pki import keyring as certificates
from kubewright.pki import rotation
from kubewright.runtime.credentials.values import Found
from simulation.controlplanes.stories import BY_NAME
from simulation.rules.table import OF_CONTROL_PLANES
from simulation.run import simulate
from simulation.world import Plot

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.timeout(600)
BUG = "a bug on purpose"


def forget_to_ask(patch: Patch) -> None:
    """A component is ready when it has as many instances as its spec asks for, whatever their probes say."""
    patch.setattr(status, "_serves", lambda seen: len(seen.running.instances) >= seen.replicas > 0)


def make_authorities_anew(patch: Patch) -> None:
    """An authority that is gone is made again, as what it signs is."""
    patch.setattr(certificates, "_signed_by", lambda _wanted, _authority: False)


def own_everything(patch: Patch) -> None:
    """Whatever is found under a name that is wanted counts as our own."""
    patch.setattr(Found, "controlled_by", lambda _self, _owner: True)


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
    patch.setattr(decide, "deleted_after", lambda _seen: "")


def delete_what_is_used(patch: Patch) -> None:
    """An etcd that is deleted alone goes at once, with the data that an API server uses."""
    patch.setattr(decide, "in_use", lambda _seen: "")


def replace_all_at_once(patch: Patch) -> None:
    """Each instance that is outdated is replaced in one pass."""

    def rolled_out(seen: Seen) -> Plan | None:
        if seen.workload is None:
            return None
        steps = tuple(Replace(each.ordinal) for each in rollout.outdated(seen.workload, seen.running))
        return Plan(steps, because=BUG) if steps else None

    _instead(patch, "_rolled_out", rolled_out)


def rotate_in_haste(patch: Patch) -> None:
    """The new authority signs while programs still trust the old one alone."""
    patch.setattr(rotation, "_not_restarted", lambda _view: iter(()))
    patch.setattr(rotation, "_without_both", lambda _view: iter(()))


def keep_no_file(patch: Patch) -> None:
    """A snapshot is complete when its data was copied, wherever the file is."""

    async def put(_self: FolderStore, _name: str, _source: Path) -> None:
        """Nothing is kept."""

    patch.setattr(FolderStore, "put", put)


def stop_in_any_order(patch: Patch) -> None:
    """All components stop at once for a restore, which waits for none of them."""
    true = Family.stopped_for
    patch.setattr(Family, "stopped_for", lambda self, first: bool(self.restore) or true(self, first))
    patch.setattr(Restore, "running", property(lambda _self: []))


def restore_one_member(patch: Patch) -> None:
    """Only the data of the first member is replaced."""
    patch.setattr(carried_out, "etcd_addresses", lambda _family: ())


def let_go_halfway(patch: Patch) -> None:
    """A restore that is deleted lets its control plane start, whatever it has replaced."""
    patch.setattr(Restore, "half_done", property(lambda _self: False))


def add_all_at_once(patch: Patch) -> None:
    """The next member is added while the last one has no vote yet."""
    true = members._learner

    def learner(seen: members.Seen, found: members.Member) -> members.Plan:
        if not seen.missing:
            return true(seen, found)
        return members.Plan((members.AddLearner(*seen.missing[0]),), because=BUG)

    patch.setattr(members, "_learner", learner)


def replace_any_voter(patch: Patch) -> None:
    """An instance that is outdated is replaced, whether or not etcd has a majority without it."""
    patch.setattr(decide, "_to_replace", lambda seen, workload: rollout.next_instance(workload, seen.running))


def upgrade_all_at_once(patch: Patch) -> None:
    """No component waits until the one before it has its new version."""
    patch.setattr(obstacles, "waits_for", lambda _component, _versions: "")


def sleep_lightly(patch: Patch) -> None:
    """What sleeps starts again when all of it has ended."""
    true = Family.stopped_for

    def stopped_for(family: Family, needed_by: Component | None) -> bool:
        runs = any(each.status.replicas for each in family.components.values())
        return runs and true(family, needed_by)

    patch.setattr(Family, "stopped_for", stopped_for)


def wake_without_data(patch: Patch) -> None:
    """An etcd wakes whether or not its data is there."""
    patch.setattr(Seen, "lost", ())


def start_without_services(patch: Patch) -> None:
    """What runs is applied whether or not its Services are there."""
    _instead(patch, "_reserved", lambda _seen: None)


def let_go_unseen(patch: Patch) -> None:
    """The finalizer goes from what was never applied, whatever was made before."""
    patch.setattr(decide, "Remove", lambda _keep: RemoveFinalizer())


def keep_all_data(patch: Patch) -> None:
    """Data stays, whether or not it is to be kept."""
    patch.setattr(decide, "Remove", lambda _keep: Remove(True))


def leave_data_halfway(patch: Patch) -> None:
    """An etcd that leaves its data goes while a restore replaces it."""
    patch.setattr(decide, "restored_first", lambda _seen: "")


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
    "every_credential_verifies": Bug(rotate_in_haste, "rotated"),
    "a_users_secret_stays": Bug(own_everything, "own-leaf"),
    "etcds_data_is_kept": Bug(sleep_for_good, "asleep-and-awake"),
    "nothing_outlives_its_component": Bug(let_go_at_once, "gone"),
    "what_others_manage_is_left_alone": Bug(work_for_others, "handed-over"),
    "nothing_of_a_paused_plane_is_touched": Bug(work_in_the_pause, "paused"),
    "what_starts_finds_what_it_needs": Bug(start_without_needs, "up-apiserver-first"),
    "what_ends_has_what_it_needs": Bug(end_in_any_order, "gone-backwards"),
    "one_at_a_time": Bug(replace_all_at_once, "two-servers"),
    "a_snapshot_is_what_it_says": Bug(keep_no_file, "copied"),
    "nothing_runs_while_data_is_replaced": Bug(stop_in_any_order, "restored"),
    "data_is_never_mixed": Bug(restore_one_member, "restored-of-three"),
    "nothing_starts_without_its_data": Bug(wake_without_data, "sleeps-and-loses-data"),
    "services_come_first": Bug(start_without_services, "in-pods-up"),
    "no_service_outlives_its_component": Bug(let_go_unseen, "in-pods-gone-on-the-way"),
    "versions_go_in_order": Bug(upgrade_all_at_once, "upgraded"),
    "what_sleeps_runs_nothing": Bug(sleep_lightly, "sleeps"),
    "one_change_of_members_at_a_time": Bug(add_all_at_once, "etcd-grows"),
    "no_majority_is_lost_by_a_change": Bug(replace_any_voter, "etcd-rolls-while-it-grows"),
}


SECOND = (
    ("data_is_never_mixed", Bug(let_go_halfway, "restored-in-pods-and-let-go")),
    ("data_is_never_mixed", Bug(leave_data_halfway, "restored-and-etcd-made-again")),
    ("nothing_outlives_its_component", Bug(keep_all_data, "gone")),
    ("what_ends_has_what_it_needs", Bug(delete_what_is_used, "etcd-deleted-alone")),
)
"""Another bug against the same rule."""


@pytest.mark.parametrize(
    ("rule", "bug"),
    [*BUGS.items(), *SECOND],
    ids=[*BUGS, *(f"{rule}-{bug.story}" for rule, bug in SECOND)],
)
def test_a_planted_bug_violates_its_rule(rule: str, bug: Bug, monkeypatch: Patch) -> None:
    bug.plant(monkeypatch)
    found = simulate(BY_NAME[f"control-plane-{bug.story}"], Plot(seed=1), until=rule).violations
    assert any(each.startswith(f"{rule}:") for each in found), found


def test_every_rule_has_a_planted_bug() -> None:
    assert {rule.name for rule in OF_CONTROL_PLANES} == set(BUGS)
