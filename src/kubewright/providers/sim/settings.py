"""How the simulated kubelets behave; all of it can be set through the driver's options.

Numbers are seconds unless their name says otherwise. ``leaseSeconds=8`` on the command line makes a
node's death show within eight seconds instead of forty.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import plainly

SYNC_SECONDS = 600.0
"""How long kubelets wait for the first lists of nodes and pods before they give up."""
SAFE_SHARE = 0.6
"""Longest time between renewals as a share of a Lease: node life cycle controllers wait for one Lease
(40 s), and a renewal may be late or fail once."""
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class KubeletSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How kubelets behave.

    ``lease_seconds``      a Lease's duration. It is renewed four times in that time, as kubelets do.
    ``lease_writes_per_second`` of all kubelets together: with very many VMs each renews its Lease less
                           often, but never less than is safe (``SAFE_SHARE``), whatever this says.
    ``heartbeat_seconds``  an unchanged status is reported again after this long.
    ``reregister_seconds`` a kubelet that runs registers again this long after its Node was deleted.
    ``pod_start_seconds``  from being created to running; ``pod_stop_seconds`` from deletion to end, or
                           the pod's grace period, if that is shorter.
    ``workers``            requests in flight for nodes, and as many for pods.
    ``kubelets``           ``off``: the VMs have none, another program makes the nodes (the benchmark does).
    """

    lease_seconds: Positive = 40
    lease_writes_per_second: Positive = 50
    heartbeat_seconds: Positive = 300
    reregister_seconds: NotNegative = 10
    pod_start_seconds: NotNegative = 0
    pod_stop_seconds: NotNegative = 1
    workers: Annotated[int, Meta(ge=1, le=256)] = 32
    kubelets: Literal["on", "off"] = "on"

    def renewal(self, count: int) -> float:
        """Seconds between two renewals of one Lease, with so many kubelets."""
        frugal = count / self.lease_writes_per_second
        return min(max(self.lease_seconds / 4, frugal), self.lease_seconds * SAFE_SHARE)

    def heartbeat(self, count: int) -> float:
        """Seconds between two reports of an unchanged status, at half the rate of the renewals."""
        return max(self.heartbeat_seconds, 2 * count / self.lease_writes_per_second)


def kubelet_settings(options: Mapping[str, str]) -> KubeletSettings:
    """Read the driver's options.

    Raises:
        InvalidInput: an unknown option or a value out of range; the message names it.
    """
    try:
        return msgspec.convert(dict(options), KubeletSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"driver sim: {plainly(str(error))}") from None
