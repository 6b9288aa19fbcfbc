"""The smallest policy of deployments: things of an image, kept by sets, rolled out or replaced on deletion."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from msgspec import structs

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, LabelSelector, ObjectMeta, Time, Value
from kubewright.replicas.deployment.seen import DeploymentPolicy, Failures, MetadataKeys, Reasons, Seen, Words
from kubewright.replicas.deployment.status import conditions, counted
from kubewright.replicas.objects import Member
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import CAPI_SCALING, OnDelete, Recreate, RollingUpdate, Strategy
from kubewright.rollout.revisions import largest
from kubewright.wire.gvk import Key, Resource

T0 = datetime(2030, 1, 1, tzinfo=UTC)
GROUP = "toys.example.com"


class Template(Value, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta(labels={"app": "a"})
    image: str = ""


class SetSpec(Value, frozen=True, kw_only=True):
    replicas: int = 0
    selector: LabelSelector | None = None
    template: Template = Template()
    min_ready_seconds: int = 0


class DeploymentSpec(SetSpec, frozen=True, kw_only=True):
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    strategy: str = "RollingUpdate"


class Condition(Value, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: Time | None = None
    last_transition_time: Time | None = None


class Status(Value, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class Thing(KubeObject, frozen=True, kw_only=True):
    pass


class ThingSet(KubeObject, frozen=True, kw_only=True):
    spec: SetSpec = SetSpec()
    status: Status = Status()


class ThingDeployment(KubeObject, frozen=True, kw_only=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: Status = Status()


THINGS = Kind(Resource(GROUP, "v1", "things", "Thing"), Thing)
SETS = Kind(Resource(GROUP, "v1", "thingsets", "ThingSet"), ThingSet)
DEPLOYMENTS = Kind(Resource(GROUP, "v1", "thingdeployments", "ThingDeployment"), ThingDeployment)
STRATEGIES: Mapping[str, Strategy] = {
    "RollingUpdate": RollingUpdate(1, 0),
    "Recreate": Recreate(),
    "OnDelete": OnDelete(),
}
FINALIZER = f"{GROUP}/sets"
SELECTOR = LabelSelector(match_labels={"app": "a"})


class ThingDeployments(DeploymentPolicy[ThingDeployment, ThingSet, Member]):
    name = "thingdeployment"
    component = "things"
    kind = DEPLOYMENTS
    set_kind = SETS
    member_kind = THINGS
    metadata_keys = MetadataKeys(
        template_hash="hash",
        revision="revision",
        history="history",
        desired="desired",
        ceiling="ceiling",
        no_creation="no-creation",
        own=frozenset(("mine",)),
    )
    reasons = Reasons(**{name: name.title() for name in Reasons.__dataclass_fields__})
    words = Words(
        deployment="Deployment",
        set="set of things",
        member="thing",
        scaled="Scaled {direction} {name} from {before} to {after}",
    )
    scaling = CAPI_SCALING

    def validate(self, deployment: ThingDeployment) -> str:
        return "spec.replicas: negative" if deployment.spec.replicas < 0 else ""

    def strategy(self, deployment: ThingDeployment) -> Strategy:
        return STRATEGIES[deployment.spec.strategy]

    def identity(self, template: Template) -> bytes:
        return template.image.encode()

    def name_and_hash(self, deployment: ThingDeployment) -> tuple[str, str]:
        image = deployment.spec.template.image
        return f"{deployment.name}-{image}", image

    def choice(self, group: Group) -> Rank:
        return largest(group)

    def ranking(self, of: ThingSet, wall: float, living: Sequence[Member]) -> Callable[[Member], Rank]:
        return lambda member: (member.name,)

    def status(self, seen: "Seen[ThingDeployment, ThingSet, Member]", failures: Failures) -> Status:
        reported = conditions(seen, failures, Condition, {})
        return structs.replace(seen.written.status, **counted(seen, failures), conditions=reported)


P = TypeVar("P")


def but(policy: P, **differs: Any) -> P:
    """The policy of sets or deployments, but for these members: one difference, as a test plants it."""
    other = copy(policy)
    vars(other).update(differs)
    return other


POLICY = ThingDeployments()
FINALIZING = but(POLICY, finalizer=FINALIZER)


def deployment(image: str = "new", replicas: int = 3, **spec: Any) -> ThingDeployment:
    """A deployment of this image; its revision is 2, as that of the set ``new``."""
    meta = spec.pop("meta", {})
    notes = {"revision": "2", "mine": "x"} | meta.pop("annotations", {})
    return ThingDeployment(
        metadata=ObjectMeta(name="d", namespace="ns", uid="d-uid", annotations=notes, **meta),
        spec=DeploymentSpec(replicas=replicas, selector=SELECTOR, template=Template(image=image), **spec),
    )


def thing_set(image: str, size: int, revision: int, **notes: str) -> ThingSet:
    """A set that ``deployment`` made of this image, ``revision`` seconds after it."""
    notes = {"revision": str(revision), "desired": "3", "ceiling": "4"} | notes
    labels = {"app": "a", "hash": image}
    return ThingSet(
        metadata=ObjectMeta(
            name=f"d-{image}",
            namespace="ns",
            uid=f"{image}-uid",
            labels=labels,
            annotations={key: text for key, text in notes.items() if text},
            creation_timestamp=T0 + timedelta(seconds=revision),
        ),
        spec=SetSpec(
            replicas=size,
            selector=LabelSelector(match_labels=labels),
            template=Template(metadata=ObjectMeta(labels=labels), image=image),
        ),
    )


def members(image: str, count: int, **facts: Any) -> dict[str, tuple[Member, ...]]:
    """Ready members of the set of this image, by its uid."""
    uid, facts = f"{image}-uid", {"ready_since": T0.timestamp() - 60, "deleting": False, **facts}
    names = [f"{image}-{number}" for number in range(count)]
    return {uid: tuple(Member(Key("ns", name), f"{name}-uid", uid, {"app": "a"}, **facts) for name in names)}


def seen(
    written: ThingDeployment,
    *sets: ThingSet,
    members: dict[str, tuple[Member, ...]] | None = None,
    policy: DeploymentPolicy[ThingDeployment, ThingSet, Member] = POLICY,
    **more: Any,
) -> Seen[ThingDeployment, ThingSet, Member]:
    """What a pass sees; the clock of ages and the date are both ``T0`` unless ``more`` says otherwise."""
    more = {"wall": T0, "now": T0.timestamp(), **more}
    return Seen(policy, written, sets=sets, members=members or {}, **more)
