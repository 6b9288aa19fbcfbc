"""What an operator may set for the infrastructure of all clusters.

Theory.      A wait that is over in a moment is not worth a write. Which waits these are, an operator
             knows: a cloud that takes a minute for a VM is reported differently than one that takes a second.
Invariants.  No machine and no cluster can set them. Pauses that no operator needs to set stand in
             ``base.delays``.
Source       CAL-03 (the pause after a creation that found no capacity).
Called by    ``compose``; ``machine.creation`` and ``machine.deletion`` take their times from here.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from kubewright.driver.life.orphans import OrphanSettings


@dataclass(frozen=True, slots=True)
class InfraSettings:
    """The defaults are those of the machines of Gardener's API, where these have the same setting."""

    confirm_absent: timedelta = timedelta(seconds=10)
    """How long a VM whose creation was not answered must stay unseen before it counts as none. Until then its
    machine keeps its finalizer, and the cloud is asked again afterwards (``driver.life``)."""

    resource_exhausted_retry: timedelta = timedelta(minutes=10)
    """The pause after a creation for which the cloud has no capacity: longer than those after other errors,
    since only other users of the cloud, or a higher quota, can end it."""

    report_after: timedelta = timedelta(seconds=3)
    """What is waited for is written only when the wait lasts: most are over in a moment, and each report
    costs two writes, since the core copies it into the Machine."""

    report_creation_after: timedelta = timedelta(seconds=3)
    """The same while the driver works on a VM: most clouds accept one in a second or two, and then its
    machine says at once what became of it."""

    node_within: timedelta = timedelta(minutes=5)
    """How long after its VM a Machine may have no Node before that is reported, with the end of the VM's
    console: why a boot failed stands nowhere else. It is read again after the same time. Booting and joining
    take one to three minutes; who gives up such a Machine is its MachineHealthCheck. A boot that the console
    says has failed is reported at once (``driver.answers.boot_failure``)."""

    orphans: OrphanSettings = field(default_factory=OrphanSettings)
    """When VMs that no KubewrightMachine wants are looked for, and when they go."""

    workers: int = 50
    """Reconciles at once, of each kind. None of them waits for a cloud."""
