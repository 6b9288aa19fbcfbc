"""Bugs planted against the rules of whole clusters: each rule must notice its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from kubewright.bootstrap import decide as bootstrap_decide
from kubewright.bootstrap.seen import Plan, Seen
from kubewright.clusters import owned
from kubewright.clusters.machine import deletion
from kubewright.clusters.machineset import clones
from kubewright.infra.machine import decide as infra_decide
from kubewright.infra.machine.decide import remove_finalizer
from kubewright.kube.client import Client
from kubewright.providers.sim.driver import HostingDriver
from kubewright.rollout import planner
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key
from simulation.clusterapi.whole import setup
from simulation.clusterapi.whole.stories import BY_NAME
from simulation.rules.table import OF_WHOLE_CLUSTERS
from simulation.run import simulate
from simulation.schedule import CALM, parse
from simulation.world import Plot

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.timeout(600)


def forget_vms(patch: Patch) -> None:
    patch.setattr(infra_decide, "DELETING", (remove_finalizer,))


def rename_vms(patch: Patch) -> None:
    """Each creation asks for a VM of another name, so a repeated one makes another VM."""
    true, numbers = HostingDriver.create, count()

    async def create(self: HostingDriver, request: Any) -> Any:
        of = request.machine
        renamed = with_fields(of.metadata, name=f"{request.name}-{next(numbers)}")
        return await true(self, replace(request, machine=with_fields(of, metadata=renamed)))

    patch.setattr(HostingDriver, "create", create)


def work_in_the_pause(patch: Patch) -> None:
    patch.setattr(owned, "paused_because", lambda _found, _cluster: "")


def take_no_lock(patch: Patch) -> None:
    patch.setattr(Seen, "holds_lock", property(lambda _seen: True))


def replace_certificates(patch: Patch) -> None:
    """What is made and is there already is replaced."""
    true = Client.create

    async def create(self: Client, kind: Any, obj: Any, **how: Any) -> Any:
        try:
            return await true(self, kind, obj, **how)
        except AlreadyExists:
            if kind.resource.plural != "secrets":
                raise
            return await self.patch(
                kind, Key(obj.metadata.namespace, obj.metadata.name), {"data": {"tls.key": "AAAA"}}
            )

    patch.setattr(Client, "create", create)


def tell_data(patch: Patch) -> None:
    """The reason of a plan has what the plan writes."""

    def telling(seen: Seen) -> Plan | None:
        plan = bootstrap_decide.make_data(seen)
        return plan and replace(plan, because=str([getattr(step, "text", "") for step in plan.steps]))

    patch.setattr(bootstrap_decide, "INIT", (*bootstrap_decide.INIT[:-1], telling))


def keep_tokens(patch: Patch) -> None:
    """The token of a machine that has joined is kept as if it had not."""

    def keeping(seen: Seen) -> Plan | None:
        machine = seen.machine
        if machine is not None:
            status = with_fields(machine.status, node_ref=None)
            seen = replace(seen, machine=with_fields(machine, status=status))
        return bootstrap_decide.keep_ready(seen)

    deciders = bootstrap_decide.BEFORE_DATA
    patch.setattr(
        bootstrap_decide,
        "BEFORE_DATA",
        tuple(keeping if each is bootstrap_decide.keep_ready else each for each in deciders),
    )
    patch.setattr(setup, "SETTINGS", replace(setup.SETTINGS, token_ttl=timedelta(seconds=120)))


def control_clones(patch: Patch) -> None:
    """A set controls the clones that it makes for a machine."""
    true = clones.cloned

    def controlled(template: Any, meta: Any) -> Any:
        owners = tuple(with_fields(each, controller=True) for each in meta.owner_references)
        return true(template, with_fields(meta, owner_references=owners))

    patch.setattr(clones, "cloned", controlled)


def invent_owners(patch: Patch) -> None:
    true = owned.cluster_reference
    patch.setattr(owned, "cluster_reference", lambda cluster: with_fields(true(cluster), uid="none"))


def own_nothing(patch: Patch) -> None:
    patch.setattr(owned, "with_cluster_ownership", lambda meta, *_args, **_how: meta)


def exceed(**limits: int) -> Callable[[Patch], None]:
    """A rolling update uses other bounds than it may."""

    def plant(patch: Patch) -> None:
        true = planner.RollingUpdate.limits
        patch.setattr(
            planner.RollingUpdate, "limits", lambda self, replicas: true(replace(self, **limits), replicas)
        )

    return plant


def see_no_hooks(patch: Patch) -> None:
    patch.setattr(deletion, "hooks", lambda _seen, _prefix: ())


def end_in_order(*places: int) -> Callable[[Patch], None]:
    """The stages of a deletion come in another order, or not at all."""
    stages = deletion.STAGES
    return lambda patch: patch.setattr(deletion, "STAGES", tuple(stages[place] for place in places))


@dataclass(frozen=True)
class Bug:
    """One bug, and the world in which its rule must notice it."""

    plant: Callable[[Patch], None]
    story: str
    faults: str = ""


HOOKS, VM, CONFIG, NODE, LAST = (0, 1, 2, 3), 4, 5, 6, 7
"""Places in ``deletion.STAGES``."""

BUGS: Mapping[str, Bug] = {
    "a_machine_has_one_vm": Bug(rename_vms, "up", "call:3:fail-after"),
    "no_vm_is_left_behind": Bug(forget_vms, "gone"),
    "one_machine_runs_init": Bug(take_no_lock, "two-planes"),
    "no_certificate_is_replaced": Bug(replace_certificates, "two-planes"),
    "nothing_of_a_paused_cluster_is_written": Bug(work_in_the_pause, "paused"),
    "an_object_has_one_controller": Bug(control_clones, "up"),
    "an_owner_is_real": Bug(invent_owners, "up"),
    "what_runs_is_owned": Bug(own_nothing, "up"),
    "not_too_many_workers": Bug(exceed(max_surge=3), "surge-1"),
    "not_too_few_workers": Bug(exceed(max_unavailable=3), "surge-1"),
    "hooks_hold_a_machine": Bug(see_no_hooks, "hook-before-drain"),
    "bootstrap_goes_after_the_vm": Bug(end_in_order(*HOOKS, CONFIG, VM, NODE, LAST), "drained"),
    "a_workers_node_goes_after_its_vm": Bug(end_in_order(*HOOKS, NODE, VM, CONFIG, LAST), "drained"),
    "a_machine_goes_last": Bug(end_in_order(*HOOKS, NODE, LAST), "drained"),
    "secrets_stay_secret": Bug(tell_data, "up"),
    "a_token_is_needed": Bug(keep_tokens, "node-recovers"),
}


SECOND = (("a_machine_goes_last", Bug(end_in_order(*HOOKS, VM, NODE, LAST), "drained")),)
"""Another bug against the same rule: here the KubeadmConfig is left, and there the VM."""


@pytest.mark.parametrize(
    ("rule", "bug"),
    [*BUGS.items(), *SECOND],
    ids=[*BUGS, *(f"{rule}-{bug.story}" for rule, bug in SECOND)],
)
def test_a_planted_bug_violates_its_rule(rule: str, bug: Bug, monkeypatch: Patch) -> None:
    bug.plant(monkeypatch)
    schedule = parse(bug.faults) if bug.faults else CALM
    found = simulate(
        BY_NAME[f"whole-cluster-{bug.story}"], Plot(seed=1, schedule=schedule), until=rule
    ).violations
    assert any(each.startswith(f"{rule}:") for each in found), found


def test_every_rule_has_a_planted_bug() -> None:
    late = {"no_vm_is_forgotten"}  # in test_sim_orphans_of_clusters
    assert {rule.name for rule in OF_WHOLE_CLUSTERS} - late == set(BUGS)
