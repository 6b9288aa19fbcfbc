"""A real Kubernetes as judge: what our server imitates and our controllers must live with.

``binaries``  where the programs are on this machine
``commands``  the flags of each program
``process``   one program: started, watched, stopped by its own id
``cluster``   ``Judge``: all of them together, as an async context manager

    async with Judge(find(), SystemClock()) as judge:
        judge.url, judge.kubeconfig            # cluster-admin
        judge.kubeconfig_for("ann", "devs")    # another user
"""

from kubewright.testing.judge.binaries import Binaries, NoKubernetes, find
from kubewright.testing.judge.cluster import Judge
from kubewright.testing.judge.commands import Options
from kubewright.testing.judge.process import Keeper, NotReady

__all__ = ["Binaries", "Judge", "Keeper", "NoKubernetes", "NotReady", "Options", "find"]
