"""What a driver may offer beyond the six verbs, each as a protocol of its own.

Theory.      The port stays small; a driver that can do more says so by having the method, and
             the composition root asks with ``isinstance``. Nothing else in the system looks.
Called by    ``compose``, which starts what runs in the background and closes what is open.
"""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Background(Protocol):
    """A driver with loops of its own, such as the simulated cloud with its kubelets."""

    async def run(self, cluster: Any) -> None:
        """Run until cancelled.

        ``cluster`` is the cluster that nodes join, as the shared ``kube.informer.Informers`` of its
        client; the port does not know that type, so that a plugin's author needs no client.
        """


@runtime_checkable
class Closing(Protocol):
    """A driver that holds something open: a session, a file, a channel."""

    async def close(self) -> None:
        """Let go of everything. Called once, after the last call has ended; must not raise."""
