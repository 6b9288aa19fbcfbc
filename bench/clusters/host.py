"""The infrastructure of the clusters, as a program: our provider, the simulated cloud, and what its VMs run.

``python -m bench.clusters.host KUBECONFIG``; it prints a line when it works, and ends with SIGTERM. The API
servers of the workload clusters listen at sockets here, and their kubelets are here.
"""

import asyncio
import sys
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.cli.switches import run_until_signal
from kubewright.compose.api_servers import Planes
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election, Options
from kubewright.driver import registry
from kubewright.infra import world as infra
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.providers import sim
from kubewright.runtime import log

AGENT = "infrastructure"
"""Its name at the API server."""
READY = "works"


async def host(kubeconfig: Path, stop: asyncio.Event) -> None:
    """Work until ``stop`` is set."""
    clock = SystemClock()
    options = Options(controllers=tuple(each.name for each in infra.CONTROLLERS), simulate=True)
    planes = Planes(clock, listens=True)
    client = Client(load(kubeconfig, clock=clock), clock, name=AGENT, user_agent=AGENT)
    driver = sim.driver(registry.Settings(clock, None, {})).hosting(planes)
    try:
        print(READY, flush=True)
        await run_with(client, client, driver, options, election=Election(enabled=False), stop=stop)
    finally:
        await planes.close()
        await client.close()


if __name__ == "__main__":
    log.configure(SystemClock(), level="error")  # to standard error: of the output only READY is read
    run_until_signal(lambda stop: host(Path(sys.argv[1]), stop))
