"""The cloud's disks: made, attached to one VM at a time, let go when the VM goes.

Invariants.  A disk is attached to at most one VM. A deleted VM holds none.
Called by    ``cloud`` (``release``), operators and tests.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kubewright.driver.errors import Code, DriverError, NotFound
from kubewright.providers.sim.store import Store
from kubewright.providers.sim.vm import Volume


class Disks:
    """All volumes of one cloud."""

    def __init__(self, store: Store, volumes: Iterable[Volume] = ()) -> None:
        self._store = store
        self._volumes = {volume.id: volume for volume in volumes}

    @property
    def all(self) -> Mapping[str, Volume]:
        """Every volume by id; a snapshot."""
        return dict(self._volumes)

    def create(self, volume: Volume) -> Volume:
        """Make a volume, or answer the one of this id."""
        return self._volumes.get(volume.id) or self._put(volume)

    def attach(self, volume_id: str, vm_id: str) -> None:
        """Attach a volume. Raises NotFound, or FailedPrecondition when another VM has it."""
        volume = self._existing(volume_id)
        if volume.vm_id not in ("", vm_id):
            raise DriverError.of(Code.FailedPrecondition, f"{volume_id} is attached to {volume.vm_id}")
        self._put(replace(volume, vm_id=vm_id))

    def detach(self, volume_id: str) -> None:
        """Detach a volume from whoever has it. Raises NotFound."""
        self._put(replace(self._existing(volume_id), vm_id=""))

    def delete(self, volume_id: str) -> None:
        """Delete a volume; a missing one is fine. Raises FailedPrecondition while a VM has it."""
        if (volume := self._volumes.get(volume_id)) is None:
            return
        if volume.vm_id:
            raise DriverError.of(Code.FailedPrecondition, f"{volume_id} is attached to {volume.vm_id}")
        del self._volumes[volume_id]
        self._store.drop_volume(volume)

    def release(self, vm_id: str) -> None:
        """Detach whatever a VM has."""
        for volume in [volume for volume in self._volumes.values() if volume.vm_id == vm_id]:
            self._put(replace(volume, vm_id=""))

    def _existing(self, volume_id: str) -> Volume:
        if (volume := self._volumes.get(volume_id)) is None:
            raise NotFound(f"there is no volume {volume_id}")
        return volume

    def _put(self, volume: Volume) -> Volume:
        self._volumes[volume.id] = volume
        self._store.save_volume(volume)
        return volume
