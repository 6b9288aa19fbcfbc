"""Everything that is read about one CapacityReserve, as one frozen value; and what may be done about it.

Called by    ``act`` (makes ``Seen``, performs steps), ``decide``. Nothing here reads or waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.apps import Deployment
from kubewright.api.capacity.v1alpha1 import OWNER_LABEL, PLACE, CapacityReserve
from kubewright.api.diff import Patch
from kubewright.api.meta import Json, ObjectMeta
from kubewright.base import plan
from kubewright.reserves.placeholders import class_name
from kubewright.reserves.sizing import Pace, Pool
from kubewright.wire.gvk import Key

PAUSE_IMAGE = "registry.k8s.io/pause:3.10.2"
"""The one that Kubernetes' releases name for the sandbox of each pod."""


@dataclass(frozen=True, slots=True)
class ReserveSettings:
    """``image``: what placeholders run; a node that is made by ``make node-image`` has it already."""

    image: str = PAUSE_IMAGE


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer, before anything stands in the cluster of the nodes."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer."""


@dataclass(frozen=True, slots=True)
class CreateClass:
    """Create the PriorityClass."""

    body: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class DeleteClass:
    """Delete a PriorityClass of ours."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CreatePlaceholders:
    """Create the Deployment."""

    body: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ChangePlaceholders:
    """Patch the Deployment in the version that was seen."""

    meta: ObjectMeta
    patch: Patch


@dataclass(frozen=True, slots=True)
class DeletePlaceholders:
    """Delete the Deployment, and so the placeholders."""

    meta: ObjectMeta


InTarget = CreateClass | DeleteClass | CreatePlaceholders | ChangePlaceholders | DeletePlaceholders
"""Effects in the cluster of the nodes."""
Step = AddFinalizer | RemoveFinalizer | InTarget


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now. ``pace``: how many placeholders there are to be; None: that is not decided now."""

    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One reserve, and all around it.

    ``image``    what placeholders run
    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``pool``     its nodes
    ``found``    the Deployment of its name; None: there is none
    ``classes``  the uids of the PriorityClasses that carry the reserve's uid, by name
    ``taken``    whether the name of its PriorityClass is that of one that does not
    ``refused``  why the API server of the nodes refused the last write, a sentence
    """

    reserve: CapacityReserve
    now: datetime
    image: str
    problem: str = ""
    pool: Pool = field(default_factory=Pool)
    found: Deployment | None = None
    classes: Mapping[str, str] = field(default_factory=dict)
    taken: bool = False
    refused: str = ""

    @property
    def key(self) -> Key:
        """The key of the reserve."""
        return Key(self.reserve.namespace, self.reserve.name)

    @property
    def priority_class(self) -> str:
        """The name of the PriorityClass that placeholders should have."""
        return class_name(self.key, self.reserve.spec.priority)

    @property
    def ours(self) -> Deployment | None:
        """The Deployment, if it carries the reserve's uid."""
        found, uid = self.found, self.reserve.metadata.uid
        return found if found is not None and found.metadata.labels.get(OWNER_LABEL) == uid else None

    @property
    def foreign(self) -> str:
        """What has our name and is not ours, as users know it; empty: nothing."""
        if self.found is not None and self.ours is None:
            return f"Deployment {PLACE}/{self.found.name}"
        return f"PriorityClass {self.priority_class}" if self.taken else ""
