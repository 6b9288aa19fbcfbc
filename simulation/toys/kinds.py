"""The toy API: sets and deployments of toys, and the two objects that every toy needs before it exists.

Theory.      What sets and deployments read stands where every API has it (``replicas.objects``). The rest
             is minimal: a toy has a flavor, is ready since some moment or has failed, and needs a
             script and a body, as Cluster API's Machine needs its bootstrap and infrastructure objects.
Called by    ``policy``, ``keeper`` and stories of tests.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import field

from kubewright.api.crd import Definition, crd
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Condition,
    IntOrString,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    Time,
    Value,
    doc,
    whole_seconds,
)
from kubewright.wire.gvk import Resource

GROUP = "toys.example.com"


class ToySpec(Value, frozen=True, kw_only=True):
    """What a toy should be."""

    flavor: Annotated[str, doc("What tells toys of two templates apart.")] = ""


class ToyStatus(Value, frozen=True, kw_only=True):
    """What a toy is."""

    ready_since: Annotated[Time | None, doc("Since when it works.")] = None
    failed: Annotated[bool, doc("It is broken, and is to be replaced.")] = False

    def __post_init__(self) -> None:
        whole_seconds(self, "ready_since")


class Toy(KubeObject, frozen=True, kw_only=True):
    """One member."""

    spec: Annotated[ToySpec, doc("What the toy should be.")] = field(default_factory=ToySpec)
    status: Annotated[ToyStatus, doc("What the toy is.")] = field(default_factory=ToyStatus)


class Part(KubeObject, frozen=True, kw_only=True):
    """A script or a body: cloned for one toy, before it."""

    spec: Annotated[ToySpec, doc("What it is cloned from.")] = field(default_factory=ToySpec)


class ToyTemplate(Value, frozen=True, kw_only=True):
    """What new toys look like."""

    metadata: Annotated[
        ObjectMeta, doc("Labels of new toys.", **{"x-kubernetes-preserve-unknown-fields": True})
    ] = field(default_factory=ObjectMeta)
    spec: Annotated[ToySpec, doc("Their spec.")] = field(default_factory=ToySpec)


class ToySetSpec(Value, frozen=True, kw_only=True):
    """What a set should be."""

    replicas: Annotated[int, doc("How many toys there should be.")] = 0
    selector: Annotated[LabelSelector | None, doc("Which toys belong.")] = None
    template: Annotated[ToyTemplate, doc("What new toys look like.")] = field(default_factory=ToyTemplate)
    min_ready_seconds: Annotated[int, doc("For how long a toy is ready before it is available.")] = 0
    delete_policy: Annotated[str, doc("Random, Newest or Oldest.")] = ""


class ToySetStatus(Value, frozen=True, kw_only=True):
    """What a set is."""

    replicas: Annotated[int, doc("How many toys there are.")] = 0
    fully_labeled_replicas: Annotated[int, doc("How many have all labels of the template.")] = 0
    ready_replicas: Annotated[int, doc("How many are ready.")] = 0
    available_replicas: Annotated[int, doc("How many are available.")] = 0
    observed_generation: Annotated[int, doc("The generation that this is about.")] = 0
    conditions: Annotated[tuple[Condition, ...], doc("What else is to say.")] = ()


class ToySet(KubeObject, frozen=True, kw_only=True):
    """So many toys that are alike."""

    spec: Annotated[ToySetSpec, doc("What the set should be.")] = field(default_factory=ToySetSpec)
    status: Annotated[ToySetStatus, doc("What the set is.")] = field(default_factory=ToySetStatus)


class RollingToys(Value, frozen=True, kw_only=True):
    """How far a rollout may deviate."""

    max_unavailable: Annotated[IntOrString | None, doc("How many toys may be missing.")] = None
    max_surge: Annotated[IntOrString | None, doc("How many toys may be too many.")] = None


class ToyStrategy(Value, frozen=True, kw_only=True):
    """How old toys give way."""

    type: Annotated[str, doc("RollingUpdate or OnDelete.")] = "RollingUpdate"
    rolling_update: Annotated[RollingToys | None, doc("The bounds.")] = None


class ToyDeploymentSpec(ToySetSpec, frozen=True, kw_only=True):
    """What a deployment should be."""

    strategy: Annotated[ToyStrategy, doc("How old toys give way.")] = field(default_factory=ToyStrategy)
    paused: Annotated[bool, doc("Stops rollouts.")] = False
    revision_history_limit: Annotated[int | None, doc("How many old sets are kept.")] = None
    progress_deadline_seconds: Annotated[int | None, doc("When a rollout is stuck.")] = None


class ToyCondition(Condition, frozen=True, kw_only=True):
    """A condition that says when it was last written."""

    last_update_time: Annotated[Time | None, doc("When it was last written.")] = None

    def __post_init__(self) -> None:
        whole_seconds(self, "last_update_time", "last_transition_time")


class ToyDeploymentStatus(Value, frozen=True, kw_only=True):
    """What a deployment is."""

    replicas: Annotated[int, doc("How many toys there are.")] = 0
    updated_replicas: Annotated[int, doc("How many have the current template.")] = 0
    ready_replicas: Annotated[int, doc("How many are ready.")] = 0
    available_replicas: Annotated[int, doc("How many are available.")] = 0
    unavailable_replicas: Annotated[int, doc("How many are missing.")] = 0
    observed_generation: Annotated[int, doc("The generation that this is about.")] = 0
    collision_count: Annotated[int | None, doc("How often a set's name was taken.")] = None
    conditions: Annotated[tuple[ToyCondition, ...], doc("What else is to say.")] = ()


class ToyDeployment(KubeObject, frozen=True, kw_only=True):
    """Toys that are alike, and the way from one template to the next."""

    spec: Annotated[ToyDeploymentSpec, doc("What it should be.")] = field(default_factory=ToyDeploymentSpec)
    status: Annotated[ToyDeploymentStatus, doc("What it is.")] = field(default_factory=ToyDeploymentStatus)


def _resource(plural: str, kind: str) -> Resource:
    return Resource(GROUP, "v1", plural, kind)


TOY = Kind(_resource("toys", "Toy"), Toy)
SCRIPT = Kind(_resource("scripts", "Script"), Part)
BODY = Kind(_resource("bodies", "Body"), Part)
TOY_SET = Kind(_resource("toysets", "ToySet"), ToySet)
TOY_DEPLOYMENT = Kind(_resource("toydeployments", "ToyDeployment"), ToyDeployment)
PARTS = (SCRIPT, BODY)


def definitions() -> list[Mapping[str, Any]]:
    """Their CustomResourceDefinitions."""
    bare = [Definition(kind, status=False) for kind in PARTS]
    return [crd(each) for each in (*bare, *(Definition(kind) for kind in (TOY, TOY_SET, TOY_DEPLOYMENT)))]
