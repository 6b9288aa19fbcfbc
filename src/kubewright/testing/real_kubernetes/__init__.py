"""A real Kubernetes to compare with: what our server imitates and our controllers must live with.

``binaries``  where the programs are on this machine
``commands``  the flags of each program
``cluster``   ``RealKubernetes``: all of them together, as an async context manager

    async with RealKubernetes(find(), SystemClock()) as real:
        real.url, real.kubeconfig            # cluster-admin
        real.kubeconfig_for("ann", "devs")    # another user
"""

from kubewright.testing.real_kubernetes.binaries import Binaries, NoKubernetes, find
from kubewright.testing.real_kubernetes.cluster import Keeper, NotReady, RealKubernetes
from kubewright.testing.real_kubernetes.commands import FOR_KUBELETS, Options

__all__ = [
    "FOR_KUBELETS",
    "Binaries",
    "Keeper",
    "NoKubernetes",
    "NotReady",
    "Options",
    "RealKubernetes",
    "find",
]
