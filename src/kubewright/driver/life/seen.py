"""What a process knows of one VM: from the last call about it, and from those before.

Called by    ``calls`` (keeps it, and makes the next one), ``plan`` (decides by it).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from kubewright.driver.contract import Instance
from kubewright.driver.errors import DriverError


class Verb(Enum):
    """What a call is for."""

    ENSURE = "ensure"
    """Find the VM, or create it, and initialize it."""

    LOOK = "look"
    """Only find out whether there is a VM."""

    DELETE = "delete"

    UPDATE = "update"
    """Change the VM on record while it runs (``contract.Updates``)."""


@dataclass(frozen=True, slots=True)
class VmSeen:
    """What is known of one object's VM. Times are those of the steady clock.

    ``began``, ``ended``  of the last call; ``ended`` is None while it runs
    ``instance``          the VM, when the last completed call found or created one
    ``error``             what the last call ended with; None: well, or it still runs and none failed before
    ``told``              the cloud has told of a VM that is no ``instance``: it lacks a name, is said to be
                          another machine's, or only an error tells of it; no answer since said otherwise
    ``absent``            by the last answer of the driver there is no VM
    ``deleted``           a deletion has succeeded, and no VM was seen since
    ``initializing``      the VM is there, its initialization failed
    ``doubt``             when a VM may last have been made that we do not know: a creation ended without a
                          definite answer or by a fault of ours, or the driver answered with a strange VM
    ``inputs``            what the call was made from: a change of them is worth another try
    ``applied``           the providerSpec that the VM has by a call of this process that made or updated it,
                          as text (``hot.written``); empty: not known here
    ``last_known_state``  what the driver wants to be told with its next call; None: what is on record
    """

    verb: Verb | None = None
    began: datetime | None = None
    ended: datetime | None = None
    instance: Instance | None = None
    error: DriverError | None = None
    told: bool = False
    absent: bool = False
    deleted: bool = False
    initializing: bool = False
    doubt: datetime | None = None
    inputs: str = ""
    applied: str = ""
    last_known_state: str | None = None

    @property
    def running(self) -> bool:
        return self.began is not None and self.ended is None

    def settled(self, verb: Verb) -> bool:
        """Whether the last call was ``verb`` and came to a good end."""
        return self.verb is verb and not self.running and self.error is None

    def is_absent_since(self, moment: datetime | None) -> bool:
        """Whether the last call, begun no earlier than that, has shown that there is no VM."""
        begun = self.began is not None and (moment is None or self.began >= moment)
        return self.absent and begun and not self.running and self.error is None

    def failed(self, verb: Verb) -> DriverError | None:
        """The error that the last call ended with, if it was ``verb``."""
        return self.error if self.verb is verb and not self.running else None


@dataclass(frozen=True, slots=True)
class ConsoleSeen:
    """What a VM's console ended with at ``at``; ``text`` is empty where the driver could not show it."""

    at: datetime
    text: str = ""


NOTHING = VmSeen()
"""Of a VM about which this process has made no call yet."""
