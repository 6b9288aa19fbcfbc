"""Adds the toy API to a simulated world.

Called by    tests, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import json, structs

from kubewright.api.machine import names
from kubewright.api.meta import without_finalizer
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import onto
from kubewright.machines.deployment import REASONS
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.deployment.seen import DeploymentPolicy, Failures, MetadataKeys, Seen, Words
from kubewright.replicas.deployment.status import conditions, counted
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import CAPI_SCALING, OnDelete, RollingUpdate, Strategy
from kubewright.rollout.revisions import largest
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.world import ControllerInfo, Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from simulation.journal import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES, Object
from simulation.toys.kinds import (
    GROUP,
    PARTS,
    TOY,
    TOY_DEPLOYMENT,
    TOY_SET,
    Toy,
    ToyCondition,
    ToyDeployment,
    ToyDeploymentStatus,
    ToySet,
    ToyTemplate,
    definitions,
)
from simulation.toys.policy import DESIRED, FINALIZER, NO_CREATION, TOY_SETS, ToyMember, ranking, read
from simulation.world import World

REVISION = f"{GROUP}/revision"
HASH = f"{GROUP}/template-hash"


class ToyDeployments(DeploymentPolicy[ToyDeployment, ToySet, ToyMember]):
    """What deployments of toys do."""

    name = "toydeployment"
    component = "toydeployment-controller"
    kind = TOY_DEPLOYMENT
    set_kind = TOY_SET
    member_kind = TOY
    finalizer = FINALIZER
    metadata_keys = MetadataKeys(
        template_hash=HASH,
        revision=REVISION,
        history=f"{GROUP}/revision-history",
        desired=DESIRED,
        ceiling=f"{GROUP}/max-replicas",
        no_creation=NO_CREATION,
    )
    reasons = REASONS
    words = Words(
        deployment="ToyDeployment",
        set="toy set",
        member="toy",
        scaled="Scaled {direction} {name} from {before} to {after}",
    )
    scaling = CAPI_SCALING

    def strategy(self, deployment: ToyDeployment) -> Strategy:
        """How old toys give way to new ones."""
        given = deployment.spec.strategy
        if given.type == "OnDelete":
            return OnDelete()
        surge = given.rolling_update.max_surge if given.rolling_update else None
        missing = given.rolling_update.max_unavailable if given.rolling_update else None
        return RollingUpdate(1 if surge is None else surge, 0 if missing is None else missing)

    def identity(self, template: ToyTemplate) -> bytes:
        """A flavor is what is rolled out; labels are not."""
        return template.spec.flavor.encode()

    def name_and_hash(self, deployment: ToyDeployment) -> tuple[str, str]:
        """The name of the set of a flavor."""
        hash_input = [deployment.spec.template.spec.flavor, deployment.status.collision_count]
        hashed = safe_encode(str(fnv32a(json.encode(hash_input))))
        return child_name(deployment.name, hashed), hashed

    def propagated(self, of: ToySet, deployment: ToyDeployment) -> ToySet:
        """What a set takes over without a rollout."""
        return structs.replace(of, spec=structs.replace(of.spec, delete_policy=deployment.spec.delete_policy))

    def choice(self, group: Group) -> Rank:
        """The one with most toys."""
        return largest(group)

    def ranking(self, of: ToySet, wall: float, living: Sequence[ToyMember]) -> Callable[[ToyMember], Rank]:
        """As ``policy.ranking``."""
        return ranking(of, wall)

    def status(self, seen: Seen[ToyDeployment, ToySet, ToyMember], failures: Failures) -> ToyDeploymentStatus:
        """Counts and conditions, and no more."""
        found = conditions(seen, failures, ToyCondition, {})
        return structs.replace(seen.written.status, **counted(seen, failures), conditions=found)


TOY_DEPLOYMENTS = ToyDeployments()


BOOT_SECONDS = 2.0
STOP_SECONDS = 2.0


class Keeper:
    """The reconciler of toys."""

    def __init__(self, client: Client, toys: Informer[Toy], clock: Clock) -> None:
        self._client = client
        self._toys = toys
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        toy = self._toys.get(key)
        if toy is None:
            return Result.done()
        meta = toy.metadata
        since, takes = meta.deletion_timestamp or meta.creation_timestamp, BOOT_SECONDS
        left = since.timestamp() + takes - self._clock.now().timestamp() if since else 0.0
        if left > 0:
            return Result.later(left)
        try:
            if meta.deleting:
                await self._end(key, toy)
            elif toy.status.ready_since is None:
                await self._begin(key, toy)
        except NotFound:
            return Result.later(0.5) if not meta.deleting else Result.done()
        return Result.done()

    async def _begin(self, key: Key, toy: Toy) -> None:
        for kind in PARTS:
            await self._client.get(kind, key)
        now = {"readySince": rfc3339(self._clock.now())}
        await self._client.patch(TOY, key, onto({"status": now}, toy.metadata), subresource="status")

    async def _end(self, key: Key, toy: Toy) -> None:
        for kind in PARTS:
            try:
                await self._client.delete(kind, key)
            except NotFound:
                continue
        left = without_finalizer(toy.metadata.finalizers, FINALIZER)
        await self._client.patch(TOY, key, onto({"metadata": {"finalizers": left or None}}, toy.metadata))


LISTED = (
    ControllerInfo("toydeployment", "ToyDeployment", names.SETS_LEASE, "rolls out toys"),
    ControllerInfo("toyset", "ToySet", names.SETS_LEASE, "keeps as many toys as a set says"),
    ControllerInfo("toy", "Toy", names.SETS_LEASE, "keeps toys"),
)
SHOWN = {
    str(TOY.resource): MACHINES,
    str(TOY_SET.resource): MACHINE_SETS,
    str(TOY_DEPLOYMENT.resource): MACHINE_DEPLOYMENTS,
}
"""The resources to which the journal converts toys."""


def install(world: World) -> None:
    """Let the managers of a world run the toy controllers too, and the journal convert toys to machines."""
    world.managers.extra_worlds.append(
        ApiWorld("toys", LISTED, _wire, (TOY, TOY_SET, TOY_DEPLOYMENT), definitions=definitions)
    )
    world.managers.extra_resources.update({each.partition(".")[0]: shown for each, shown in SHOWN.items()})
    world.journal.shown_as.update({each: (shown, as_machine) for each, shown in SHOWN.items()})
    for each in map(str, (kind.resource for kind in PARTS)):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}


def _wire(environment: Environment, _chosen: Sequence[str]) -> Runnables:
    client, caches = environment.control.client, environment.control.caches
    toys = caches.get(TOY)
    index = MemberIndex(toys, read, client.steady())
    sets = Sets(TOY_SETS, caches, environment.recorder, index=index)
    deployments = Deployments(TOY_DEPLOYMENTS, caches, environment.recorder, index=index)
    keeper = Controller("toy", Keeper(client, toys, environment.clock), environment.clock).watches(toys)
    return Runnables([deployments.controller(), sets.controller(), keeper])


def as_machine(found: Object) -> Object:
    """A toy, its set or its deployment, converted to a machine, set or deployment."""
    meta, spec, status = dict(found["metadata"]), dict(found["spec"]), dict(found.get("status", {}))
    if FINALIZER in meta.get("finalizers", ()):
        meta["finalizers"] = [names.FINALIZER]
    if (number := meta.get("annotations", {}).get(REVISION)) is not None:
        meta["annotations"] = {**meta["annotations"], names.REVISION_ANNOTATION: number}
    if "template" in spec:
        spec["template"] = _classed(spec["template"])
        return {"metadata": meta, "spec": spec, "status": status}
    phase = "Failed" if status.get("failed") else "Running" if status.get("readySince") else "Pending"
    return {
        "metadata": meta,
        "spec": {"class": {"name": spec.get("flavor", "")}},
        "status": {"currentStatus": {"phase": phase}},
    }


def _classed(template: Mapping[str, Any]) -> dict[str, Any]:
    labels = {key: text for key, text in template["metadata"]["labels"].items() if key != HASH}
    return {
        "metadata": {"labels": labels},
        "spec": {"class": {"name": template.get("spec", {}).get("flavor", "")}},
    }
