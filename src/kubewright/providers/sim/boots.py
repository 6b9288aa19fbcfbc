"""Boot the VMs that have user data: run their commands, start their control planes, let their kubelets join.

Theory.      A task for each VM that boots, from the moment when it is up until its data has run; for one that
             booted before, the same task starts its control plane again. What came of it is a part of the VM
             (``vm.Bootstrap``), so it outlives the process. A control plane serves while one of its machines
             runs, and ends with the last of them. A hosted control plane, which no machine runs, starts and
             ends without us: the kubelets of its nodes run while it serves and it has nodes. Where the API
             server is another process, each VM joins it by itself (``tls_bootstrap``), and has a kubelet of
             its own. ``kubeadm join`` is let in if, and only if, there is a control plane at its address, the
             hash of its CA is one that the machine was given, and it knows the token; for what may come late
             it tries again, as kubeadm does, until its time is over.
             A kubelet for each VM whose API server is another process: with its own certificate it sees its
             own node. A real API server lets a kubelet read and write only what belongs to its node. So each
             VM has a client of its own, with the certificate that it got when it joined, and watches of its
             own. When the kubelet fails, it starts again after a pause: the cluster may be out of reach for a
             while.
Invariants.  Nothing that user data holds ends another VM's boot, and none of it gets into a log. The sentinel
             file is written by the command that bootstrap data ends with, so only when kubeadm has succeeded.
             ``run`` lasts as long as the boot that it is part of. Nothing of it is left when it is cancelled.
Source       kubeadm's discovery time-out of five minutes.
Called by    ``driver``, which runs it beside the kubelets of the VMs that have no such data.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import TypeVar

import structlog
from msgspec.structs import replace

from kubewright.base.errors import KubewrightError, single
from kubewright.kube.client import Client
from kubewright.kube.config import connect
from kubewright.kube.informer import Informers
from kubewright.pki.facts import public_key_hashes
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import VmObserver
from kubewright.providers.sim.kubeadm import (
    Action,
    Init,
    Join,
    NodeSetup,
    Unbootable,
    Write,
    actions,
    read,
)
from kubewright.providers.sim.kubelets import Kubelets
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.providers.sim.tls_bootstrap import (
    ControlPlane,
    ControlPlanes,
    KubeletCredentials,
    Membership,
    NotYet,
    PlaneRequest,
    access,
    hosted_already,
    request_credentials,
)
from kubewright.providers.sim.vm import Bootstrap, Vm

AUTHORITY = "/etc/kubernetes/pki/ca.crt"
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KEY = "/var/lib/kubelet/pki/kubelet-client-current.key"
"""The files of a VM that hold the credentials of its kubelet."""
PAUSE_SECONDS = 5.0


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


DISCOVERY_SECONDS = 300.0
"""How long ``kubeadm join`` looks for the cluster before it fails."""
DISCOVERY_PAUSE = 5.0
WORKERS = 2
"""Requests in flight of the kubelets of one cluster: there may be a thousand clusters, most of them small."""

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Boots:
    """See the module. Observes every VM of the cloud (``inventory.VmObserver``)."""

    def __init__(self, membership: Membership, planes: ControlPlanes, settings: KubeletSettings) -> None:
        self._membership = membership
        self._cloud = membership.cloud
        self._clock = membership.cloud.clock
        self._planes = planes
        self._settings = replace(settings, workers=WORKERS)
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, tuple[int, asyncio.Task[None]]] = {}
        self._kubelets: dict[str, asyncio.Task[None]] = {}
        self._control_plane_vms: dict[str, set[str]] = {}
        self._own_kubelets = OwnKubelets(self._cloud, settings)

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self._planes.listen(self._plane_changed)
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._membership.begin(self)
            try:
                await asyncio.Event().wait()
            finally:
                unlisten()
                self._membership.end()
                self._group = None

    def changed(self, vm_id: str) -> None:
        """A VM came, went or changed."""
        self._own_kubelets.changed(vm_id)
        vm, known = self._cloud.get(vm_id), self._tasks.get(vm_id)
        runs = vm is not None and vm.powered and vm.gone_at is None and vm.bootstrap is not None
        if known is not None and (vm is None or not runs or known[0] != vm.boot):
            known[1].cancel()
            del self._tasks[vm_id]
            self._stopped(vm_id)
        if vm is None or not runs or vm_id in self._tasks or self._group is None:
            if vm is None:
                self._stopped(vm_id)
            return
        task = self._group.create_task(self._boot(vm), name=f"boot {vm_id}", context=Context())
        self._tasks[vm_id] = (vm.boot, task)  # in a context of its own, so that no log line names another VM

    async def wait_idle(self, vm_id: str) -> None:
        """Wait until the VM's boot has no request in flight: its task is cancelled when it is deleted."""
        await self._own_kubelets.wait_idle(vm_id)
        await self._clock.sleep(0)

    async def _boot(self, vm: Vm) -> None:
        """Everything from power on to the end of the commands."""
        now = self._clock.now().timestamp()
        await self._clock.sleep(max(0.0, vm.up_at - now))
        assert vm.bootstrap is not None
        try:
            if not vm.bootstrap.cluster and not vm.bootstrap.trouble and vm.spec.lifecycle.joins:
                await self._first_boot(vm, vm.bootstrap)
            elif vm.bootstrap.control_plane:
                await self._later_boot(vm, vm.bootstrap)
            elif vm.bootstrap.cluster:
                self._plane_changed(vm.bootstrap.cluster)
        except KubewrightError as error:
            log.warning("a simulated VM did not become a node", vm=vm.id, machine=vm.name, because=str(error))
            self._cloud.bootstrapped(vm.id, replace(vm.bootstrap, trouble=str(error)))
        except Exception:  # one odd file or a bug of ours must not end the boots of all others
            log.exception("the boot of a simulated VM failed", vm=vm.id)
            self._cloud.bootstrapped(vm.id, replace(vm.bootstrap, trouble="the boot failed; see the log"))
        else:
            await self._run_own_kubelet(vm.id)

    async def _run_own_kubelet(self, vm_id: str) -> None:
        """If the VM has credentials for a kubelet of its own, run that kubelet until the VM stops."""
        vm = self._cloud.get(vm_id)
        credentials = credentials_in(vm.bootstrap) if vm is not None and vm.bootstrap is not None else None
        if vm is not None and credentials is not None:
            await self._own_kubelets.run(vm, credentials)

    async def _first_boot(self, vm: Vm, found: Bootstrap) -> None:
        """The first boot: cloud-init runs the commands."""
        for action in actions(read(found.data, found.format, _variables(vm))):
            found = await self._perform(vm, found, action)
        self._cloud.bootstrapped(vm.id, found)

    async def _perform(self, vm: Vm, found: Bootstrap, action: Action) -> Bootstrap:
        match action:
            case Write(path, text, append):
                before = found.files.get(path, "") if append else ""
                return replace(found, files={**found.files, path: f"{before}{text}\n"})
            case Init():
                await self._serve(vm.id, action)
                return _registered(found, action.address, action.node, control_plane=True)
            case Join() if self._planes.served_by_process(action.address):
                return await self._joined_process(vm, found, action)
            case Join():
                plane = await self._discovered(action)
                if action.control_plane and plane.hosted:
                    raise Unbootable(hosted_already(action.address))
                if action.control_plane:
                    self._control_plane_vms.setdefault(action.address, set()).add(vm.id)
                self._run_kubelets(action.address, plane)
                return _registered(found, action.address, action.node, control_plane=action.control_plane)

    async def _later_boot(self, vm: Vm, found: Bootstrap) -> None:
        """A later boot of a control plane machine: its API server runs again."""
        for action in actions(read(found.data, found.format, _variables(vm))):
            if isinstance(action, Init):
                await self._serve(vm.id, action)
                return
            if isinstance(action, Join):
                plane = await self._planes.begin(PlaneRequest(action.address))
                self._control_plane_vms.setdefault(action.address, set()).add(vm.id)
                self._run_kubelets(action.address, plane)
                return

    async def _serve(self, vm_id: str, init: Init) -> None:
        request = PlaneRequest(
            init.address, init.authority.encode(), init.authority_key.encode(), init.names, init.tokens
        )
        plane = await self._planes.begin(request)
        self._control_plane_vms.setdefault(init.address, set()).add(vm_id)
        self._run_kubelets(init.address, plane)

    async def _joined_process(self, vm: Vm, found: Bootstrap, join: Join) -> Bootstrap:
        """The VM after it has joined an API server in another process."""
        if join.control_plane:
            raise Unbootable(hosted_already(join.address))
        credentials = await self._retried(
            lambda: request_credentials(join, join.node.name or vm.host_name, self._clock)
        )
        files = {**found.files, **files_of(credentials)}
        return _registered(replace(found, files=files), join.address, join.node, control_plane=False)

    async def _discovered(self, join: Join) -> ControlPlane:
        """The control plane that a machine joins.

        Raises:
            Unbootable: there is none at its address, or it is another, or it does not know the token.
        """
        return await self._retried(lambda: self._discover(join))

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The answer of the first attempt that does not raise ``NotYet``.

        Raises:
            Unbootable: every attempt raised it, for as long as kubeadm tries; and what an attempt raises.
        """
        until = self._clock.monotonic() + DISCOVERY_SECONDS
        while True:
            try:
                return await attempt()
            except NotYet as error:
                if self._clock.monotonic() + DISCOVERY_PAUSE > until:
                    raise Unbootable(f"kubeadm join gave up after {DISCOVERY_SECONDS:g} s: {error}") from None
            await self._clock.sleep(DISCOVERY_PAUSE)

    async def _discover(self, join: Join) -> ControlPlane:
        plane = self._planes.find(join.address)
        if plane is None:
            raise NotYet(f"no API server answers at {join.address}")
        known = set(public_key_hashes(plane.authority))
        if not join.unsafe and not known & set(join.hashes):
            raise Unbootable(f"none of the caCertHashes is that of the CA of {join.address}")
        if not plane.accepts(join.token):
            raise NotYet(f"the API server at {join.address} does not know the bootstrap token")
        return plane

    def _run_kubelets(self, address: str, plane: ControlPlane) -> None:
        """Start the kubelets of this cluster, if they do not run yet."""
        if address not in self._kubelets and self._group is not None and self._settings.kubelets == "on":
            kubelets = Kubelets(self._membership.of(address), plane.informers, self._settings)
            self._kubelets[address] = self._group.create_task(_quietly(kubelets), name=f"kubelets {address}")

    def _plane_changed(self, address: str) -> None:
        """Run the kubelets of a hosted control plane while it serves and has nodes."""
        plane = self._planes.find(address)
        if address in self._control_plane_vms or (plane is not None and not plane.hosted):
            return
        if plane is not None and self._membership.members(address):
            self._run_kubelets(address, plane)
        elif (kubelets := self._kubelets.pop(address, None)) is not None:
            kubelets.cancel()

    def _stopped(self, vm_id: str) -> None:
        """A VM stopped: a control plane pauses when none of its machines runs, and ends when none exists."""
        for address in list(self._kubelets.keys() - self._control_plane_vms.keys()):
            self._plane_changed(address)
        for address, members in list(self._control_plane_vms.items()):
            if vm_id not in members:
                continue
            members.discard(vm_id)
            if members or self._group is None:
                continue
            del self._control_plane_vms[address]
            there = [vm for vm in self._membership.members(address).values() if vm.gone_at is None]
            exists = any(vm.bootstrap is not None and vm.bootstrap.control_plane for vm in there)
            if (kubelets := self._kubelets.pop(address, None)) is not None:
                kubelets.cancel()
            self._group.create_task(self._planes.pause(address) if exists else self._planes.end(address))


async def _quietly(kubelets: Kubelets) -> None:
    """Run the kubelets of one cluster; their failure is logged and ends no other cluster's."""
    try:
        await kubelets.run()
    except KubewrightError as error:
        log.warning("kubelets of a simulated cluster ended", because=str(error))


def _registered(found: Bootstrap, address: str, node: NodeSetup, *, control_plane: bool) -> Bootstrap:
    return replace(
        found,
        cluster=address,
        control_plane=control_plane,
        name=node.name,
        labels=dict(node.labels),
        taints=node.taints,
    )


def _variables(vm: Vm) -> Mapping[str, str]:
    """What cloud-init knows of its VM."""
    return {
        "ds.meta_data.local_hostname": vm.host_name,
        "ds.meta_data.hostname": vm.host_name,
        "ds.meta_data.instance_id": vm.id,
        "ds.meta_data.local_ipv4": vm.address,
        "v1.local_hostname": vm.host_name,
        "v1.instance_id": vm.id,
    }
