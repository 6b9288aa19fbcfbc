"""What may be done about a KubeadmConfig, and what its status shall say: the values that ``decide`` answers.

Invariants.  What is secret in a step is not in its ``repr``. A report is about conditions that changed their
             state; what a report does not name stays as it is.
Called by    ``decide`` (makes them), ``act`` (performs them).
"""

from dataclasses import dataclass, field

from kubewright.api.bootstrap.v1beta1 import KubeadmConfigSpec
from kubewright.api.cluster.v1beta1 import Condition
from kubewright.base import plan
from kubewright.bootstrap.tokens import Token
from kubewright.pki.credentials import Purpose


@dataclass(frozen=True, slots=True)
class OwnData:
    """Make the KubeadmConfig the controller of its data Secret; its reference with an old uid is removed."""


@dataclass(frozen=True, slots=True)
class TakeLock:
    """Create the init lock in the name of the machine."""


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Delete the init lock, if it is still the one that was seen."""

    uid: str


@dataclass(frozen=True, slots=True)
class MakeCertificates:
    """Make the pairs of these purposes, a Secret for each."""

    purposes: tuple[Purpose, ...]


@dataclass(frozen=True, slots=True)
class PatchSpec:
    """Write what was filled into the spec."""

    spec: KubeadmConfigSpec


@dataclass(frozen=True, slots=True)
class KeepToken:
    """Begin a call, beside the workers, that makes or refreshes this token in the workload cluster."""

    token: Token


@dataclass(frozen=True, slots=True)
class WriteData:
    """Write the data into its Secret."""

    format: str
    text: str = field(repr=False)


Step = OwnData | TakeLock | ReleaseLock | MakeCertificates | PatchSpec | KeepToken | WriteData


@dataclass(frozen=True, slots=True)
class Report:
    """What the status shall say. ``data_secret``, if it is not empty, is ready."""

    conditions: tuple[Condition, ...] = ()
    data_secret: str = ""


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now, and what to report.

    ``last``         no later decider is asked in this pass
    ``unless_done``  what is done after all when a step is refused
    """

    report: Report | None = None
    last: bool = True
    unless_done: tuple[ReleaseLock, ...] = ()

    @property
    def ends_the_pass(self) -> bool:
        return self.last
