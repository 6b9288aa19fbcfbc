"""What a user may choose when starting Kubewright; ``cli`` makes these values, which check themselves."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from kubewright.api.webhooks.configurations import Address, FailurePolicy
from kubewright.apiserver.http.reach import Reach
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.controlplanes.hosting.processes.options import ProcessOptions
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.infra.settings import InfraSettings
from kubewright.kube.scope import EVERYWHERE, Namespaces
from kubewright.machines.settings import MachineSettings
from kubewright.reserves.seen import ReserveSettings
from kubewright.runtime.lease import WHOLE, Shard, Timings
from kubewright.runtime.webhooks.certificates import Lifetimes

NAME = "kubewright"


def program() -> str:
    """The words that start this program in this shell."""
    if Path(sys.argv[0]).name == "__main__.py":
        return shlex.join([sys.orig_argv[0], "-m", NAME])
    return called(sys.argv[0], shutil.which(NAME), Path.cwd())


def called(path: str, found: str | None, here: Path) -> str:
    """The word for the program at ``path``; ``found`` is what the shell finds by the bare name."""
    if Path(path).name != NAME:  # another program has called us: a test, a debugger
        return NAME
    whole = Path(os.path.abspath(here / path))
    if found is not None and Path(os.path.abspath(here / found)) == whole:
        return NAME
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))


DATA_DIR = "dataDir"
"""The one driver option that every driver has: the folder that it may write to."""


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Admission webhooks: where they are served, and where API servers find them.

    ``port``     to listen on; 0 picks a free one; ``host``: the address, empty means all
    ``address``  where an API server reaches that port
    ``policy``   what it does with a write while no replica answers
    """

    port: int
    address: Address
    host: str = "127.0.0.1"
    policy: FailurePolicy = FailurePolicy.IGNORE
    lifetimes: Lifetimes = field(default_factory=Lifetimes)


@dataclass(frozen=True, slots=True)
class Options:
    """How the controllers run, in ``up`` and in ``run``.

    ``namespaces``      only the objects in these
    ``watch_filter``    only objects whose label ``cluster.x-k8s.io/watch-filter`` says this; empty means all
    ``shard``           only the objects of this shard, beside processes that have the others
    ``controllers``     names, ``*`` and ``-name``, as ``worlds.select`` reads them
    ``driver``          the cloud, by name; empty where no machines are made
    ``driver_options``  options that the driver itself defines
    ``simulate``        whether simulated nodes may join a cluster that is not ``kubewright up``
    ``machine``         time-outs of machines; ``orphans``: when to look for VMs without a machine
    ``bootstrap``       tokens and keys of machines that join clusters
    ``infra``           times of the infrastructure of clusters
    ``reserves``        what placeholders of reserved capacity run
    ``processes``       how components of nested control planes run as processes of this machine
    ``strict_running``  whether a Machine of Cluster API runs only while its Node is Ready
    ``grace``           seconds of silence after which the embedded server calls a node unreachable
    ``health_host``     where /healthz, /readyz and /metrics are served; empty means on all addresses
    ``health_port``     and on which port; None: nowhere
    ``profiling``       whether profiles of this process are served there, too
    ``restore_image``   the image of this program, for pods that put a snapshot into volumes of etcds; empty
                        means that etcd in pods is not restored
    ``snapshot_folder`` where ``run`` keeps files of snapshots that name no bucket; None: nowhere
    ``webhooks``        admission webhooks of the kinds whose controllers run; None: none
    """

    driver: str = "sim"
    driver_options: Mapping[str, str] = field(default_factory=dict)
    simulate: bool = False
    namespaces: Namespaces = EVERYWHERE
    watch_filter: str = ""
    shard: Shard = WHOLE
    controllers: tuple[str, ...] = ("*",)
    machine: MachineSettings = field(default_factory=MachineSettings)
    orphans: OrphanSettings = field(default_factory=OrphanSettings)
    bootstrap: BootstrapSettings = field(default_factory=BootstrapSettings)
    infra: InfraSettings = field(default_factory=InfraSettings)
    reserves: ReserveSettings = field(default_factory=ReserveSettings)
    processes: ProcessOptions = field(default_factory=ProcessOptions)
    strict_running: bool = False
    grace: float = 40.0
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    profiling: bool = False
    webhooks: WebhookOptions | None = None
    restore_image: str = ""
    snapshot_folder: Path | None = None

    def __post_init__(self) -> None:
        """Raises InvalidInput for times with which the orphan collector could delete a machine's VM."""
        if self.orphans.confirmation <= self.machine.confirm_absent:
            raise InvalidInput(
                "VMs without machines must be confirmed for longer than a creation takes to show"
            )
        if min(self.orphans.period, self.orphans.soon) < timedelta(seconds=1):
            raise InvalidInput("VMs without machines cannot be looked for more than once in a second")


@dataclass(frozen=True, slots=True)
class Election:
    """Whether replicas elect a leader, where their Leases are, and their pace.

    ``leases``      other names for Leases, by their default names, which are MCM's
    ``timings``     at the default pace two Leases cost an idle process at most 12 requests a minute
    ``again``       whether a half that lost its Lease stands for it again; else the process ends
    ``renew_on_request``  renew a Lease only when another process asks for it; for a process through which all
                    requests pass (``leases``)
    """

    enabled: bool = True
    namespace: str = "default"
    leases: Mapping[str, str] = field(default_factory=dict)
    timings: Timings = field(default_factory=lambda: Timings(retry_period=12.0))
    again: bool = True
    renew_on_request: bool = False


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where an embedded server keeps its data, and where it is reached.

    ``data_dir``    the folder of everything: database, certificates, the simulated cloud
    ``port``        of the API server; 0 picks a free one; None: the one of the last start, a free one at the
                    first
    ``reach``       which address it listens on, and by which names other machines know it
    ``kubeconfig``  where to write it; None: in the data folder
    ``accept_loss`` start also where the folder has less than was committed
    """

    data_dir: Path
    port: int | None = None
    kubeconfig: Path | None = None
    accept_loss: bool = False
    reach: Reach = field(default_factory=Reach)

    @property
    def kubeconfig_path(self) -> Path:
        return self.kubeconfig or self.data_dir / "kubeconfig"
