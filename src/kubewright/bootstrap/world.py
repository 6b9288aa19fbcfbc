"""The world of ``bootstrap.cluster.x-k8s.io``: its controller, and how it is put together.

Theory.      Upstream's provider has a Lease of its own, and ours takes a Lease of the same name: so the two
             never work on the same objects at once, whichever core runs beside them.
Invariants.  The lookup of workload clusters is passed in as a function, since another context (``clusters``)
             knows their kubeconfigs and makes the sessions. Each term makes one lookup and runs it.
Source       capi.md §4.3 for the Lease, §13.1 for the controller.
Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Sequence

from kubewright.api.bootstrap.crds import crds
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.names import KUBEADM_BOOTSTRAP_LEASE, WATCH_FILTER_LABEL
from kubewright.bootstrap import reconciler
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.bootstrap.token_calls import Workloads
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

CONTROLLERS = (
    ControllerInfo(
        "kubeadmconfig",
        "KubeadmConfig",
        KUBEADM_BOOTSTRAP_LEASE,
        "makes the data by which machines become nodes, and keeps their bootstrap tokens",
    ),
)

Reach = Callable[[Environment], Workloads]
"""Makes the lookup of workload clusters, for one term."""


def world(reach: Reach, settings: BootstrapSettings | None = None) -> World:
    """This world, whose machines join the clusters that ``reach`` finds."""

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        assert "kubeadmconfig" in chosen, "it is the only controller of this world"
        workloads = reach(environment)
        controller, token_calls = reconciler.wire(environment, workloads, settings or BootstrapSettings())
        return Runnables([controller], [workloads.run, token_calls.run])

    return World(
        "bootstrap",
        CONTROLLERS,
        wire,
        kinds=(KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE),
        definitions=crds,
        on_request=True,
        filter_label=WATCH_FILTER_LABEL,
    )
