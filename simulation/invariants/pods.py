"""What invariants know of pods and their drains: where they are, which of them leave, who asked for it.

Called by    ``past``, which keeps it up to date; read by ``drains`` and ``vms``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from simulation.invariants.facts import deleting, ended, volume_claims
from simulation.journal import ApiStep, Object, Removal


@dataclass(slots=True)
class Pods:
    """For one world. A pod that has ended counts as gone."""

    now: Callable[[], float]
    on: dict[str, dict[str, None]] = field(default_factory=dict)
    """Keys of pods by the name of their node."""
    emptied: dict[str, float] = field(default_factory=dict)
    """Since when nodes that had pods have none, by name."""
    detaching: dict[str, dict[str, float]] = field(default_factory=dict)
    """Pods with volumes that are leaving, and since when, by the name of their node."""
    left: dict[str, dict[str, float]] = field(default_factory=dict)
    """Claims that pods left behind, and since when, by the name of their node."""
    attached: dict[str, float] = field(default_factory=dict)
    """Since when each VolumeAttachment is there, by its name."""
    _asked: dict[str, tuple[float, Removal]] = field(default_factory=dict)
    """The last removal that a manager asked for, and when, by the pod's key."""

    def hear(self, removal: Removal) -> None:
        """A manager asks for the end of a pod."""
        self._asked[removal.key] = (self.now(), removal)

    def learn(self, step: ApiStep) -> None:
        """A pod has changed."""
        for pod, there in ((step.old, False), (step.new, True)):
            node = str(pod["spec"].get("nodeName", "")) if pod is not None else ""
            if not node or pod is None:
                continue
            if there and not ended(pod):
                self._is_on(node, step.key, pod)
            else:
                self._is_off(node, step.key, pod)

    def learn_attachment(self, step: ApiStep) -> None:
        """A volume is attached, or no longer."""
        if step.new is None:
            self.attached.pop(step.key, None)
        else:
            self.attached.setdefault(step.key, self.now())

    def asker(self, key: str) -> str:
        """The manager that last asked for the end of a pod; empty if none did."""
        return self._asked[key][1].client if key in self._asked else ""

    def cause(self, step: ApiStep) -> Removal | None:
        """What a manager asked for, if a pod begins to leave with this step because of it."""
        begins = step.old is not None and not deleting(step.old)
        if not begins or (step.new is not None and not deleting(step.new)):
            return None
        at, removal = self._asked.get(step.key, (-1.0, None))
        return removal if at == self.now() else None

    def _is_on(self, node: str, key: str, pod: Object) -> None:
        self.on.setdefault(node, {})[key] = None
        self.emptied.pop(node, None)
        for claim in volume_claims(pod):
            self.left.get(node, {}).pop(claim, None)
        if deleting(pod) and any(volume_claims(pod)):
            self.detaching.setdefault(node, {}).setdefault(key, self.now())

    def _is_off(self, node: str, key: str, pod: Object) -> None:
        for claim in volume_claims(pod):
            self.left.setdefault(node, {}).setdefault(claim, self.now())
        self.on.get(node, {}).pop(key, None)
        self.detaching.get(node, {}).pop(key, None)
        if not self.on.get(node):
            self.emptied.setdefault(node, self.now())
