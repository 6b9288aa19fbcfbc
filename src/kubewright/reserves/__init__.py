"""Room that is kept free: the world of ``capacity.kubewright.dev``, its one controller; ``wiring`` wires it.

Theory.      It works for whatever makes nodes: machines of this program, another program's, or none. So it is
             a world of its own, under a Lease of its own, and its reserves may be in another cluster than the
             nodes, where the machines are. Not every server has its kind, so it is ``on_request``.
Map.         ``sizing``        how many placeholders a reserve has, and when they become fewer (pure)
             ``placeholders``  what stands in the cluster of the nodes: Deployment and PriorityClass (pure)
             ``seen``          all that decides, as one value; and what may be done
             ``decide``        what comes next, and what the status says (pure)
             ``act``           one pass: reads and performs
             ``wiring``        which changes give a reserve a pass
Called by    ``compose.worlds``.
"""

from collections.abc import Sequence

from kubewright.api.capacity.manifests import crds
from kubewright.api.capacity.v1alpha1 import CAPACITY_RESERVE, LEASE
from kubewright.reserves.seen import ReserveSettings
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

NAME = "reserves"

CONTROLLERS = (
    ControllerInfo(
        "reserve",
        "CapacityReserve",
        LEASE,
        "keeps room free on nodes, by pods that give way to workloads",
    ),
)


def world(settings: ReserveSettings) -> World:
    """This world."""

    def controllers(environment: Environment, _chosen: Sequence[str]) -> Runnables:
        from kubewright.reserves.wiring import wire

        return Runnables([wire(environment, settings)])

    return World(
        NAME,
        CONTROLLERS,
        controllers,
        kinds=(CAPACITY_RESERVE,),
        definitions=crds,
        on_request=True,
    )
