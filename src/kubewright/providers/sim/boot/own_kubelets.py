"""A kubelet for each VM whose API server is another process: with its own certificate it sees its own node.

Theory.      A real API server lets a kubelet read and write only what belongs to its node. So each VM has a
             client of its own, with the certificate that it got when it joined, and watches of its own. When
             the kubelet fails, it starts again after a pause: the cluster may be out of reach for a while.
Invariants.  ``run`` lasts as long as the boot that it is part of. Nothing of it is left when it is cancelled.
Called by    ``boots``.
"""

import asyncio
from collections.abc import Mapping

import structlog
from msgspec.structs import replace

from kubewright.base.errors import KubewrightError, single
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.kube.informer import Informers
from kubewright.providers.sim.boot.tls_bootstrap import KubeletCredentials, access
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import VmObserver
from kubewright.providers.sim.kubelets import Kubelets
from kubewright.providers.sim.settings import KubeletSettings
from kubewright.providers.sim.vm import Bootstrap, Vm

AUTHORITY = "/etc/kubernetes/pki/ca.crt"
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KEY = "/var/lib/kubelet/pki/kubelet-client-current.key"
"""The files of a VM that hold the credentials of its kubelet."""
PAUSE_SECONDS = 5.0

log = structlog.get_logger(__name__)


def files_of(credentials: KubeletCredentials) -> dict[str, str]:
    """The files in which a VM keeps the credentials, by path."""
    return {AUTHORITY: credentials.authority, CERTIFICATE: credentials.certificate, KEY: credentials.key}


def credentials_in(found: Bootstrap) -> KubeletCredentials | None:
    """The credentials in the files of a VM; None: it has joined no API server of another process."""
    kept = found.files
    if not found.cluster or KEY not in kept:
        return None
    return KubeletCredentials(kept[AUTHORITY], kept[CERTIFICATE], kept[KEY])


class OneVm:
    """One VM, as the only kubelet that knows of it sees it (``inventory.VmSource``)."""

    def __init__(self, cloud: Cloud, vm_id: str) -> None:
        self.clock = cloud.clock
        self.observer: VmObserver | None = None
        self._cloud = cloud
        self._vm_id = vm_id

    @property
    def vms(self) -> Mapping[str, Vm]:
        """The VM by its id, while it is there."""
        vm = self.get(self._vm_id)
        return {} if vm is None else {self._vm_id: vm}

    def get(self, vm_id: str) -> Vm | None:
        """The VM; None: it is gone, or it is another."""
        return self._cloud.get(vm_id) if vm_id == self._vm_id else None

    def obey(self, vm_id: str, note: str) -> frozenset[str]:
        """As ``Cloud.obey``."""
        return self._cloud.obey(vm_id, note)

    def observe(self, observer: VmObserver | None) -> None:
        """Tell this observer of the VM from now on; None: no longer."""
        self.observer = observer


class OwnKubelets:
    """The kubelets of all such VMs. Observes every VM of the cloud (``inventory.VmObserver``)."""

    def __init__(self, cloud: Cloud, settings: KubeletSettings) -> None:
        self._cloud = cloud
        self._settings = replace(settings, workers=1)
        self._sources: dict[str, OneVm] = {}

    def changed(self, vm_id: str) -> None:
        """A VM came, went or changed."""
        if (source := self._sources.get(vm_id)) is not None and source.observer is not None:
            source.observer.changed(vm_id)

    async def wait_idle(self, vm_id: str) -> None:
        """Wait until the VM's kubelet has no request in flight."""
        if (source := self._sources.get(vm_id)) is not None and source.observer is not None:
            await source.observer.wait_idle(vm_id)

    async def run(self, vm: Vm, credentials: KubeletCredentials) -> None:
        """Run the kubelet of this VM until cancelled."""
        if vm.bootstrap is None or self._settings.kubelets != "on":
            return
        source = self._sources[vm.id] = OneVm(self._cloud, vm.id)
        try:
            while True:
                try:
                    await self._work(source, vm.node_name, vm.bootstrap.cluster, credentials)
                except KubewrightError as error:
                    log.info("the kubelet of a simulated VM cannot work", vm=vm.id, because=str(error))
                except Exception:  # a bug of ours must not silence all others
                    log.exception("the kubelet of a simulated VM failed", vm=vm.id)
                await self._cloud.clock.sleep(PAUSE_SECONDS)
        finally:
            del self._sources[vm.id]

    async def _work(self, source: OneVm, node: str, address: str, credentials: KubeletCredentials) -> None:
        clock = self._cloud.clock
        client = Client(connect(access(address, credentials), clock=clock), clock, name=f"cluster {address}")
        informers = Informers(client)
        kubelet = Kubelets(source, informers, self._settings, node)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run(), name=f"caches of {node}")
                group.create_task(kubelet.run(), name=f"kubelet of {node}")
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        finally:
            await client.transport.close()
