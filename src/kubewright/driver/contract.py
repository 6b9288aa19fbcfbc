"""The driver port: what a cloud must be able to do for us. Read this to write a provider.

Theory.      One small port serves every machine API. A driver sees values, never API objects:
             the name it must use, the class's opaque ``provider_spec``, the merged secret. The
             name together with ``owner_uid`` is the idempotency key: a driver tags what it
             makes with both and finds it again by them.
Contract.    create      Idempotent by name: if a VM of that name and owner exists, answer it.
                         Return when the cloud has accepted it; do not wait for the boot. The VM
                         has a provider id and a node name, or it is not believed.
             initialize  After creation, for what the cloud's create cannot express. Optional;
                         ``NotFound`` means that there is nothing to initialize, and is skipped.
             delete      Idempotent; a missing VM is success or ``NotFound``. Return only when
                         the VM can no longer run anything, else its kubelet may register again.
                         Another owner's VM of the same name stays.
             status      The VM as it is; ``NotFound`` when there is none, ``Uninitialized`` when
                         it exists but ``initialize`` is not done.
             list        Every VM that this class's tags own in its namespace, also those nobody
                         remembers. Optional; without it orphans are never collected.
             volume_ids  The cloud's ids for persistent volumes; unknown ones are left out.
                         Optional.
             Any call may be cancelled at any await and repeated later. Errors are those of
             ``driver.errors``; anything else raised is treated as ``Unknown``. Optional calls
             raise ``Unimplemented``.
Source       seed 004 (driver contract), mcm.md §3.1. ``testing.driver_conformance`` checks it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class MachineClassRef:
    """The opaque half of a request: what the class says and what its secrets hold.

    ``secret`` holds raw bytes; ``userData`` is already filled in for create, initialize and status.
    """

    name: str
    namespace: str
    provider: str = ""
    provider_spec: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """One machine and its class. ``provider_id`` is empty while we do not know it."""

    name: str
    namespace: str
    owner_uid: str
    machine_class: MachineClassRef
    provider_id: str = ""
    node_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    last_known_state: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A VM as a driver knows it; ``node_name`` is what its kubelet registers as."""

    provider_id: str
    node_name: str
    machine_name: str = ""
    owner_uid: str = ""
    addresses: tuple[tuple[str, str], ...] = ()
    """(type, address) pairs, e.g. (``InternalIP``, ``10.0.0.7``)."""
    last_known_state: str = ""


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A PersistentVolume's name and its ``spec`` as JSON gives it."""

    name: str
    spec: Mapping[str, Any]


class Driver(Protocol):
    """A cloud. See the module docstring for the contract."""

    async def create(self, request: MachineRequest) -> Instance: ...

    async def initialize(self, request: MachineRequest) -> Instance: ...

    async def delete(self, request: MachineRequest) -> None: ...

    async def status(self, request: MachineRequest) -> Instance: ...

    async def list(self, machine_class: MachineClassRef) -> Sequence[Instance]: ...

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]: ...
