"""The world of ``bootstrap.cluster.x-k8s.io``: its controller; ``wiring`` puts it together.

Theory.      Upstream's provider has a Lease of its own, and ours takes a Lease of the same name: so the two
             never work on the same objects at once, whichever core runs beside them.
Invariants.  The lookup of workload clusters is that of the term (``Environment.workloads``), since another
             context (``clusters``) knows their kubeconfigs.
Called by    ``compose.worlds``.
"""

from collections.abc import Sequence

from kubewright.api.bootstrap.manifests import crds
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.names import KUBEADM_BOOTSTRAP_LEASE, WATCH_FILTER_LABEL
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

CONTROLLERS = (
    ControllerInfo(
        "kubeadmconfig",
        "KubeadmConfig",
        KUBEADM_BOOTSTRAP_LEASE,
        "makes the data by which machines become nodes, and keeps their bootstrap tokens",
    ),
)


def world(settings: BootstrapSettings | None = None) -> World:
    """This world."""

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        from kubewright.bootstrap import wiring

        assert "kubeadmconfig" in chosen, "it is the only controller of this world"
        workloads = environment.workloads()
        controller, token_calls = wiring.wire(environment, workloads, settings or BootstrapSettings())
        return Runnables([controller], [token_calls.run])

    return World(
        "bootstrap",
        CONTROLLERS,
        wire,
        kinds=(KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE),
        definitions=crds,
        reads=("clusters",),
        on_request=True,
        filter_label=WATCH_FILTER_LABEL,
        reaches_workloads=True,
    )
