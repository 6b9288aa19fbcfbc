"""Which VM belongs to which cluster, so that the kubelets of a cluster are told of its VMs only.

Theory.      A cloud tells one observer of every change. With many clusters on one cloud each change
             concerns one of them: the one that the VM is in now, or was in before. ``ClusterVms`` is the
             cloud as the kubelets of one cluster see it. A cluster is named by the address of its API
             server; the empty name is the cluster that VMs without bootstrap data join (Gardener's machines).
Called by    ``driver`` (for that one) and ``boots`` (for all others).
"""

from collections.abc import Mapping

from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.inventory import VmObserver
from kubewright.providers.sim.vm import Vm


class Membership:
    """The VMs of one cloud by cluster; observes the cloud from ``begin`` to ``end``."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._observers: dict[str, VmObserver] = {}
        self._everything: VmObserver | None = None
        self._cluster_of: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {}

    def begin(self, everything: VmObserver) -> None:
        """Observe the cloud; the observer ``everything`` is told of each change, of whatever cluster."""
        self._everything = everything
        self.cloud.observe(self)
        for vm_id in self.cloud.vms:
            self.changed(vm_id)

    def end(self) -> None:
        """Observe the cloud no more."""
        self.cloud.observe(None)

    def of(self, cluster: str) -> "ClusterVms":
        """The VMs of one cluster; of an empty name, those without bootstrap data."""
        return ClusterVms(self, cluster)

    def members(self, cluster: str) -> Mapping[str, Vm]:
        """The VMs of one cluster by id; a snapshot."""
        found = {vm_id: self.cloud.get(vm_id) for vm_id in self._members.get(cluster, ())}
        return {vm_id: vm for vm_id, vm in found.items() if vm is not None}

    def observe(self, cluster: str, observer: VmObserver | None) -> None:
        """Tell this observer of the VMs of one cluster from now on; None: no longer."""
        if observer is None:
            self._observers.pop(cluster, None)
        else:
            self._observers[cluster] = observer

    def changed(self, vm_id: str) -> None:
        """A VM came, went or changed (``VmObserver``)."""
        vm, before = self.cloud.get(vm_id), self._cluster_of.pop(vm_id, None)
        after = vm.cluster if vm is not None else None
        if before is not None and before != after:
            self._members[before].pop(vm_id, None)
        if after is not None:
            self._cluster_of[vm_id] = after
            self._members.setdefault(after, {})[vm_id] = None
        for cluster in dict.fromkeys((before, after)):
            if cluster is not None and (observer := self._observers.get(cluster)) is not None:
                observer.changed(vm_id)
        if self._everything is not None:
            self._everything.changed(vm_id)

    async def wait_idle(self, vm_id: str) -> None:
        """Wait until nothing that runs on the VM has a request in flight (``VmObserver``)."""
        if self._everything is not None:
            await self._everything.wait_idle(vm_id)
        if (observer := self._observers.get(self._cluster_of.get(vm_id, ""))) is not None:
            await observer.wait_idle(vm_id)


class ClusterVms:
    """The VMs of one cluster, as its kubelets see them (``inventory.VmSource``)."""

    def __init__(self, membership: Membership, cluster: str) -> None:
        self.clock = membership.cloud.clock
        self._membership = membership
        self._cluster = cluster

    @property
    def vms(self) -> Mapping[str, Vm]:
        """Every VM of the cluster by id; a snapshot."""
        return self._membership.members(self._cluster)

    def get(self, vm_id: str) -> Vm | None:
        """One VM, or None when it is gone, or not of this cluster."""
        vm = self._membership.cloud.get(vm_id)
        return vm if vm is not None and vm.cluster == self._cluster else None

    def obey(self, vm_id: str, note: str) -> frozenset[str]:
        """As ``Cloud.obey``."""
        return self._membership.cloud.obey(vm_id, note)

    def observe(self, observer: VmObserver | None) -> None:
        """Tell this observer of the cluster's VMs from now on; None: no longer."""
        self._membership.observe(self._cluster, observer)
