"""The control planes that this process hosts beside a simulated cloud, in both ways to run.

Theory.      A VM of the simulated cloud runs nothing, so what ``kubeadm init`` starts on one is an API server
             in this process (``api_servers``), and so are nested control planes of version ``embedded``
             (``task_hosting``). That does not depend on where the objects are that describe them: on an API
             server of this process (``up``), or on a real one (``run --driver sim``). In both, users reach a
             control plane at a loopback address by TLS, and our controllers by a call.
Invariants.  What is in the data folder outlives the process; without one all of it ends with the process. No
             driver but the simulated cloud's is given control planes.
Called by    ``embedded`` and ``on_kubernetes``.
"""

from pathlib import Path

from kubewright import builtin
from kubewright.apiserver.http.connections import Connections
from kubewright.base.clock import Clock
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.clusters.sessions import Connect
from kubewright.compose.api_servers import Planes
from kubewright.compose.folder import CLUSTERS_FOLDER, Claims, private_folder
from kubewright.compose.plane_controllers import controllers_of
from kubewright.compose.plane_transports import PlaneTransports
from kubewright.compose.task_hosting import TaskHosting
from kubewright.driver.contract import Driver
from kubewright.providers.sim.driver import SimDriver


class OwnPlanes:
    """All of them, for one process.

    ``data_dir``  where they keep what they have; None: in memory
    ``listens``   whether they listen at sockets; tests on virtual time reach them in process only
    ``grace``     seconds of silence after which a node of theirs counts as lost
    ``connections``  those of all listeners of the process; None: these have the only ones
    ``claims``    what of theirs must be there at each start
    ``accept_loss``  start with data that lost commits, as the administrator said

    ``planes`` are all of them; ``nested`` those that NestedControlPlanes describe.
    """

    def __init__(
        self,
        clock: Clock,
        data_dir: Path | None,
        *,
        listens: bool,
        grace: float,
        connections: Connections | None = None,
        accept_loss: bool = False,
        claims: Claims | None = None,
    ) -> None:
        nodes = NodeSettings(grace=grace)
        folder = None if data_dir is None else private_folder(data_dir / CLUSTERS_FOLDER)
        self.planes = Planes(
            clock,
            connections=connections,
            folder=folder,
            listens=listens,
            nodes=nodes,
            accept_loss=accept_loss,
            claims=claims,
        )
        controllers = controllers_of(builtin.Settings(nodes=nodes, run_apps=True), clock)
        self.nested = TaskHosting(self.planes, clock, data_dir, controllers, claims)

    def under(self, driver: Driver) -> Driver:
        """The driver, with these control planes if it is the simulated cloud's."""
        return driver.hosting(self.planes) if isinstance(driver, SimDriver) else driver

    def connect(self) -> Connect:
        """Makes transports to workload clusters: to these in process, to all others by sockets."""
        return PlaneTransports(self.planes)

    def join_others_as_processes(self) -> None:
        """Let simulated VMs join an API server at any other address as kubeadm and a kubelet do."""
        self.planes.served_by_process = lambda address: not self.planes.knows(address)

    async def close(self) -> None:
        """Stop all of them; what is in the data folder stays. Close the driver before."""
        await self.nested.close()
        await self.planes.close()
