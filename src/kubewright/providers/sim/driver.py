"""The driver port on the simulated cloud: requests in, the cloud's answers out.

Theory.      Everything interesting happens in ``cloud``; here a class's ``providerSpec`` is read and
             a VM becomes an ``Instance``. The driver also runs the VMs' kubelets (``run``), which
             is how nodes join a cluster that has no real machines. The cloud keeps everything that the
             driver must know later, so it returns no last known state.
Called by    the machine controllers through ``driver.guard``; ``compose`` for ``run`` and ``close``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.driver.answers import of_old_class
from kubewright.driver.contract import (
    ClassRequest,
    Instance,
    MachineRequest,
    OldClass,
    Size,
    VolumeSpec,
    stub,
)
from kubewright.driver.errors import InvalidArgument
from kubewright.driver.hot import last_applied_switch, last_applied_tags
from kubewright.kube.informer import Informers
from kubewright.providers.sim.boots import Boots
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import VmRequest
from kubewright.providers.sim.kubelets import Kubelets
from kubewright.providers.sim.spec import (
    FLAT_TAGS,
    HOT_FIELDS,
    KubeletSettings,
    SimSpec,
    parse_spec,
    refuse_impossible_node,
    refuse_tags,
)
from kubewright.providers.sim.tls_bootstrap import ControlPlanes, Membership
from kubewright.providers.sim.vm import SCHEME, Bootstrap, Vm, volume_ids
from kubewright.wire.gvk import Resource
from kubewright.wire.naming import machine_name_problem

OLD_KIND = Resource("machine.sapcloud.io", "v1alpha1", "simmachineclasses", "SimMachineClass")
"""The kind of class that the simulated cloud might have had before MachineClass."""


class SimDriver:
    """A ``driver.contract.Driver`` on a simulated cloud."""

    def __init__(self, cloud: Cloud, settings: KubeletSettings | None = None) -> None:
        self.cloud = cloud
        self._settings = settings or KubeletSettings()

    async def create(self, request: MachineRequest) -> Instance:
        if problem := machine_name_problem(request.name):
            raise InvalidArgument(f"machine {request.name}: its name {problem}")
        wanted = _vm_request(request)
        refuse_impossible_node(wanted.spec)
        return _instance(await self.cloud.create(wanted))

    async def initialize(self, request: MachineRequest) -> Instance:
        return _instance(await self.cloud.initialize(_vm_request(request)))

    async def delete(self, request: MachineRequest) -> None:
        await self.cloud.delete(_vm_request(request))

    async def status(self, request: MachineRequest) -> Instance:
        return _instance(await self.cloud.status(_vm_request(request)))

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        wanted = _vm_request(request.of(stub("", request.machine_class.metadata.namespace)))
        return [_instance(vm) for vm in await self.cloud.list(wanted)]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return volume_ids(volumes)

    async def size(self, request: ClassRequest) -> Size:
        """What a node of this class will offer (``contract.Sizes``)."""
        spec = parse_spec(request.machine_class.provider_spec)
        return Size({name: str(amount) for name, amount in spec.capacity.items()}, spec.architecture, "linux")

    async def validate(self, request: ClassRequest) -> None:
        """Refuse a class by which no VM can be made (``contract.Validates``)."""
        wanted = _vm_request(request.of(stub("", request.machine_class.metadata.namespace)))
        refuse_impossible_node(wanted.spec)

    def hot_fields(self, _machine_class: MachineClass) -> Sequence[str]:
        """What ``update`` applies (``contract.Updates``)."""
        return HOT_FIELDS

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """Tags and the check of addresses, without another VM (``contract.Updates``)."""
        wanted = _vm_request(request)
        refuse_tags(wanted.spec)
        await self.cloud.update(
            wanted,
            last_applied_tags(last_applied, FLAT_TAGS),
            last_applied_switch(last_applied, "sourceDestCheck"),
        )

    def migrated_kinds(self) -> Sequence[Resource]:
        """So that migrations can be tried (``contract.Migrates``)."""
        return (OLD_KIND,)

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        """A class by which VMs can be made (``contract.Migrates``)."""
        made = of_old_class(old, SCHEME)
        refuse_impossible_node(parse_spec(made.provider_spec))
        return made

    async def run(self, cluster: Informers) -> None:
        """Run the kubelets of all VMs in that cluster, until cancelled (``contract.Background``)."""
        if self._settings.kubelets == "on":
            await Kubelets(self.cloud, cluster, self._settings).run()

    def hosting(self, planes: ControlPlanes) -> "HostingDriver":
        """The same cloud with control planes."""
        return HostingDriver(self.cloud, self._settings, planes)

    async def close(self) -> None:
        """Close the cloud's file."""
        await self.cloud.close()


class HostingDriver(SimDriver):
    """The same with control planes: clusters get an endpoint, and VMs with user data boot from it."""

    def __init__(self, cloud: Cloud, settings: KubeletSettings, planes: ControlPlanes) -> None:
        super().__init__(cloud, settings)
        self._planes = planes

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        """An address for the API server of a cluster (``contract.Endpoints``)."""
        host, _, port = self._planes.reserve(_owner(request)).rpartition(":")
        return host, int(port)

    async def release(self, request: ClassRequest) -> None:
        """The cluster is gone (``contract.Endpoints``)."""
        self._planes.release(_owner(request))

    async def run(self, cluster: Informers) -> None:
        """Boot VMs that have bootstrap data, and run all kubelets: those of other VMs in ``cluster``."""
        membership = Membership(self.cloud)
        async with asyncio.TaskGroup() as group:
            if self._settings.kubelets == "on":
                group.create_task(Kubelets(membership.of(""), cluster, self._settings).run())
            group.create_task(Boots(membership, self._planes, self._settings).run())


def _owner(request: ClassRequest) -> str:
    meta = request.machine_class.metadata
    return f"{meta.namespace}/{meta.name}/{meta.uid}"


def _vm_request(request: MachineRequest) -> VmRequest:
    machine_class = request.machine_class
    if machine_class.provider not in ("", SCHEME):
        raise InvalidArgument(
            f"class {machine_class.metadata.name} is for provider {machine_class.provider!r}, not {SCHEME!r}"
        )
    return VmRequest(
        name=request.name,
        namespace=request.namespace,
        owner_uid=request.owner_uid,
        class_name=machine_class.metadata.name,
        spec=_spec(request),
        provider_id=request.provider_id,
        bootstrap=_bootstrap(request),
    )


def _spec(request: MachineRequest) -> SimSpec:
    """The providerSpec; the kubelet of an image that it does not name is of the version that is asked for."""
    given = request.machine_class.provider_spec
    spec = parse_spec(given)
    if not request.version or "kubeletVersion" in given:
        return spec
    return structs.replace(spec, kubelet_version=request.version)


def _bootstrap(request: MachineRequest) -> Bootstrap | None:
    """What the VM boots from, where that alone makes it a node."""
    if not request.data_format:
        return None
    return Bootstrap(data=request.secret.data.get("userData", b""), format=request.data_format)


def _instance(vm: Vm) -> Instance:
    return Instance(
        provider_id=vm.provider_id,
        node_name=vm.node_name,
        machine_name=vm.name,
        owner_uid=vm.owner_uid,
        addresses=(("InternalIP", vm.address), ("Hostname", vm.node_name)),
    )
