"""The policy of toy deployments: how toys are rolled out, and how old ones are left to users to delete.

Called by    ``toys.api``.
Source       capi.md §7.9.
"""

from collections.abc import Callable, Sequence

from msgspec import json, structs

from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.machines.deployment import REASONS
from kubewright.replicas.deployment.policy import DeploymentPolicy, MetadataKeys, Words
from kubewright.replicas.deployment.seen import Outcome, Seen
from kubewright.replicas.deployment.status import conditions, counted
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import CAPI_SCALING, OnDelete, RollingUpdate, Strategy
from kubewright.rollout.revisions import largest
from simulation.toys.kinds import (
    GROUP,
    TOY,
    TOY_DEPLOYMENT,
    TOY_SET,
    ToyCondition,
    ToyDeployment,
    ToyDeploymentStatus,
    ToySet,
    ToyTemplate,
)
from simulation.toys.policy import DESIRED, FINALIZER, NO_CREATION, ToyMember, ranking

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

    def status(self, seen: Seen[ToyDeployment, ToySet, ToyMember], outcome: Outcome) -> ToyDeploymentStatus:
        """Counts and conditions, and no more."""
        found = conditions(seen, outcome, ToyCondition, {})
        return structs.replace(seen.written.status, **counted(seen, outcome), conditions=found)


TOY_DEPLOYMENTS = ToyDeployments()
