"""The world of infrastructure: its controllers; ``wiring`` puts them together.

Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Mapping, Sequence

from kubewright.api.cluster.names import WATCH_FILTER_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.core import SECRET
from kubewright.api.infra.manifests import crds
from kubewright.api.infra.names import LEASE
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
)
from kubewright.driver.contract import Driver
from kubewright.driver.guard import Listener
from kubewright.infra.settings import InfraSettings
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

CONTROLLERS = (
    ControllerInfo(
        "kubewrightcluster", "KubewrightCluster", LEASE, "finds the endpoint of a cluster's API server"
    ),
    ControllerInfo("kubewrightmachine", "KubewrightMachine", LEASE, "makes and deletes the VMs of Machines"),
    ControllerInfo(
        "kubewrightmachinetemplate",
        "KubewrightMachineTemplate",
        LEASE,
        "tells what the nodes of a template will offer",
    ),
    ControllerInfo("kubewrightcredentials", "Secret", LEASE, "keeps credentials while VMs may need them"),
    ControllerInfo(
        "kubewrightorphan", "KubewrightCluster", LEASE, "deletes VMs of a cluster that no machine wants"
    ),
)


def world(
    drivers: Mapping[str, Driver], own: str, on_call: Callable[[str], Listener], settings: InfraSettings
) -> World:
    """This world, with VMs in the clouds of these drivers, by name; ``own`` is for what names none.

    ``on_call`` makes what is told how each call to a driver ended, by the driver's name.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        from kubewright.infra import wiring

        return wiring.wire(environment, chosen, drivers, own=own, on_call=on_call, settings=settings)

    return World(
        "infra",
        CONTROLLERS,
        wire,
        kinds=(
            KUBEWRIGHT_CLUSTER,
            KUBEWRIGHT_MACHINE,
            KUBEWRIGHT_CLUSTER_TEMPLATE,
            KUBEWRIGHT_MACHINE_TEMPLATE,
        ),
        event_kinds=(CLUSTER, MACHINE, SECRET),
        definitions=crds,
        reads=("clusters",),
        on_request=True,
        filter_label=WATCH_FILTER_LABEL,
    )
