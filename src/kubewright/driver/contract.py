"""The driver port: what a cloud must be able to do for us. Read this to write a provider.

Theory.      One small port serves every machine API. A request carries a Machine, its MachineClass
             and one Secret, whole, as types of ``kubewright.api``: what the controller has read, and
             not a copy. A driver uses what it needs: the name, the class's opaque ``provider_spec``,
             the secret's data. The name together with ``owner_uid`` is the idempotency key: a driver
             tags what it makes with both and finds it again by them.
             A driver may leave itself a note, ``last_known_state``: with an answer, or with an error.
             It is written to the Machine's status, and comes back with the next request.
Contract.    create      Idempotent by name: if a VM of that name and owner exists, answer it.
                         Return when the cloud has accepted it; do not wait for the boot. A VM
                         that is answered without provider id or node name counts as a failed creation.
             initialize  After creation, for what the cloud's create cannot express. Optional;
                         ``NotFound`` means that there is nothing to initialize, and is skipped.
             delete      Idempotent; a missing VM is success or ``NotFound``. Return only when
                         the VM can no longer run anything, else its kubelet may register again.
                         With a provider id: that VM and no other, also where another has its name.
                         Without: the VM of that name and owner; another owner's of the same name
                         stays. Answers a last known state, or None.
             status      The VM as it is; ``NotFound`` when there is none, ``Uninitialized`` when
                         it exists but ``initialize`` is not done, ``OutOfRange`` when the cloud has
                         several for this machine. Optional; without it a VM on record is taken to
                         exist, and an initialization that failed before a restart is forgotten.
             list        Every VM that was made with the tags of this class for machines of the class's
                         namespace, also those without a machine, and no others: a controller that
                         works on one namespace takes the VMs of others for orphans, and deletes
                         them, unless they say their owners' uids. Optional; without it orphans are
                         never collected.
             volume_ids  The cloud's ids for persistent volumes; unknown ones are left out. Optional.
                         A drain asks for the ids of a volume without a VolumeAttachment, to find it
                         in ``node.status.volumesAttached`` (``nodes.drain.session``), and waits for
                         the answer no longer than seconds: it follows from the object, without the
                         cloud. Without the verb such a volume is not awaited.
             Any call may be cancelled at any await and repeated later. Errors are those of
             ``driver.errors``; anything else raised is treated as ``Unknown``. Optional calls
             raise ``Unimplemented``.
Source       CAL-01 to CAL-12. ``testing.driver_conformance`` checks it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from kubewright.api.core import Secret
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine, MachineClass, MachineSpec
from kubewright.api.meta import ObjectMeta
from kubewright.wire.gvk import Resource


@dataclass(frozen=True, slots=True)
class ClassRequest:
    """A class, and what its secrets hold.

    ``secret`` has the merged data of all secrets of the class, and no name. Its repr shows no values.
    """

    machine_class: MachineClass
    secret: Secret = field(default_factory=Secret)

    def of(self, machine: Machine) -> "MachineRequest":
        """The request for one machine of this class."""
        return MachineRequest(machine, self.machine_class, self.secret)


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """One machine, its class, and what the secrets of the class hold.

    ``secret`` is as in ``ClassRequest``; for create, initialize and the status that goes before them its
    ``userData`` is filled in. For a VM whose Machine object is gone the machine is a stub (``stub``), and so
    it is for an API without Machines of ours. ``data_format`` says what ``userData`` is (``cloud-config`` or
    ``ignition``) where the VM becomes a node by it and by nothing else; empty where it is not known.
    ``version`` is that of the Kubernetes that the VM should run (``v1.31.0``), for drivers that choose an
    image by it; empty where the API does not say it, or the call is none of these. ``control_plane``: an API
    server of its cluster will run on it, and is to be reached at the cluster's endpoint (``Endpoints``); said
    for the same calls.
    """

    machine: Machine
    machine_class: MachineClass
    secret: Secret = field(default_factory=Secret)
    data_format: str = ""
    version: str = ""
    control_plane: bool = False

    @property
    def name(self) -> str:
        return self.machine.metadata.name

    @property
    def namespace(self) -> str:
        return self.machine.metadata.namespace

    @property
    def owner_uid(self) -> str:
        """The machine's uid, or ``owner_tag`` of one of another API."""
        return self.machine.metadata.uid

    @property
    def provider_id(self) -> str:
        """The VM on record; empty while there is none."""
        return self.machine.spec.provider_id

    @property
    def node_name(self) -> str:
        """The name of the VM's node on record; empty while there is none."""
        return names.node_name(self.machine.metadata.labels)

    @property
    def last_known_state(self) -> str:
        """What the driver left for this call."""
        return self.machine.status.last_known_state


def stub(name: str, namespace: str, uid: str = "", *, provider_id: str = "", node_name: str = "") -> Machine:
    """A machine of which no more is known: the object is gone, or was never a Machine."""
    labels = {names.NODE_LABEL: node_name} if node_name else {}
    return Machine(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid, labels=labels),
        spec=MachineSpec(provider_id=provider_id),
    )


def owner_tag(kind: str, uid: str) -> str:
    """The owner's uid in requests for objects that are no Machines of ours: ``<kind>.<uid>``.

    Two APIs may share an account of a cloud. Each looks for VMs that its machines have lost, and must see
    which are the other's.
    """
    return f"{kind.lower()}.{uid}"


def is_tagged(owner_uid: str, kind: str = "") -> bool:
    """Whether a VM was made for an object of another API than that of Machines; of this kind, if given."""
    tagged, dot, _ = owner_uid.partition(".")
    return bool(dot) and kind.lower() in ("", tagged)


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
    """What the driver wants to be told with its next call; empty: nothing new."""
    interruptible: bool = False
    """The cloud may take the VM away at any time."""


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A PersistentVolume's name and its ``spec`` as JSON gives it."""

    name: str
    spec: Mapping[str, Any]


class Driver(Protocol):
    """A cloud. See the module docstring for the contract."""

    async def create(self, request: MachineRequest) -> Instance: ...

    async def initialize(self, request: MachineRequest) -> Instance: ...

    async def delete(self, request: MachineRequest) -> str | None: ...

    async def status(self, request: MachineRequest) -> Instance: ...

    async def list(self, request: ClassRequest) -> Sequence[Instance]: ...

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]: ...


# What a driver may offer beyond the six verbs. It says so by having the method: ``isinstance`` compares names
# of methods only, so a driver has no method of these names for anything else. A ``guard.GuardedDriver`` has
# all of them but ``run``, ``lead``, ``provider_of``, ``reached`` and ``close``: what is asked for these is
# ``guarded.driver``.


@runtime_checkable
class Background(Protocol):
    """A driver with loops of its own, such as the simulated cloud with its kubelets."""

    async def run(self, cluster: Any) -> None:
        """Run until cancelled.

        ``cluster`` is the cluster that nodes join, as the shared ``kube.informer.Informers`` of its
        client; the port does not know that type, so that a plugin's author needs no client.
        """
        ...


@runtime_checkable
class Leading(Protocol):
    """A driver that does something only while this process leads, such as letting clouds dial in."""

    async def lead(self) -> None:
        """Run until cancelled. One for each term of each world that calls the driver; several may run at a
        time, and each is cancelled when its Lease is lost."""
        ...


@runtime_checkable
class Several(Protocol):
    """A driver that stands for several clouds."""

    def provider_of(self, machine_class: MachineClass) -> str:
        """Which of them a class is for: a label of metrics, so one of a few names, whatever classes say."""
        ...


@runtime_checkable
class Reached(Protocol):
    """A driver whose clouds come and go."""

    def reached(self, provider: str) -> str:
        """Which of them makes the VMs of classes with this provider, and whether it is there: a clause."""
        ...


@runtime_checkable
class Endpoints(Protocol):
    """A driver that gives the API server of a cluster an address that does not change with its machines."""

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        """Host and port for the cluster that ``request.machine_class`` stands for: its name, namespace, uid
        and providerSpec. Idempotent by name, namespace and uid. ``Unavailable`` while it is being made.
        What connects there is to reach port 6443 of those VMs that were made with a class of this uid and
        ``control_plane``.
        """
        ...

    async def release(self, request: ClassRequest) -> None:
        """The cluster is gone: give its address back. Idempotent; a missing one is success."""
        ...


@runtime_checkable
class Consoles(Protocol):
    """A driver that can show what a VM has written to its console: why a boot failed stands nowhere else."""

    async def console(self, request: MachineRequest) -> str:
        """The end of it, as the VM wrote it, some hundred lines; below it a driver may say ``the VM is off:``
        and why. Asked for every quarter of a minute while a node is awaited, since a boot that failed is told
        there (``answers.boot_failure``), and for a machine that is given up; answered within seconds:
        ``NotFound`` when there is no VM. The guard bounds it and takes out what it may hold of secrets.
        """
        ...


@dataclass(frozen=True, slots=True)
class Size:
    """What the node of a machine of a class will offer: quantities by resource, and what it runs on."""

    capacity: Mapping[str, str]
    architecture: str = ""
    operating_system: str = ""


@runtime_checkable
class Sizes(Protocol):
    """A driver that knows what a node will offer before there is one: by it, sets are scaled from zero."""

    async def size(self, request: ClassRequest) -> Size:
        """What a machine of this class will offer."""
        ...


@runtime_checkable
class Validates(Protocol):
    """A driver that knows of a class whether it could make any VM by it, before there is a machine."""

    async def validate(self, request: ClassRequest) -> None:
        """Raise what a creation by this class would be refused with, whatever the machine: InvalidArgument
        for a providerSpec that the driver does not understand, Unauthenticated or PermissionDenied for
        credentials. What changes by itself (quota, capacity) is not asked. Makes nothing, and is cheap: it
        runs whenever a class or its secrets change, and at each start.
        """
        ...


@runtime_checkable
class Updates(Protocol):
    """A driver that changes VMs while they run: their tags, a check of addresses, and what else needs no
    other VM (HOT-01)."""

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        """The fields of the class's providerSpec that ``update`` applies, such as ``tags`` or ``tags.disk``:
        dots part the keys of objects, and a field covers all that is below it. All others are fixed for the
        life of a VM. From memory, without the cloud; ``Unavailable`` where that is not known yet.
        """
        ...

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """Make the VM on record what its class says in the hot fields, and return when it is so.

        ``last_applied``: the providerSpec that this VM had last; None where it is not known: then nothing is
        removed. What it does not name came from elsewhere, and stays (``hot.three_way``), and so do the tags
        by which the cloud's objects are found (``hot.is_mandatory``). Idempotent, also after a part of it was
        done: the controllers repeat it until it has answered. ``NotFound`` when there is no VM.
        """
        ...


@dataclass(frozen=True, slots=True)
class OldClass:
    """A class of the time before MachineClass, such as an AWSMachineClass: ``content`` is the object as JSON
    gives it."""

    resource: Resource
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])


@runtime_checkable
class Migrates(Protocol):
    """A driver that makes MachineClasses of the classes that its cloud had before (MIG-01)."""

    def migrated_kinds(self) -> Sequence[Resource]:
        """The kinds of those classes. The same for the life of the driver."""
        ...

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        """The MachineClass by which machines of the old class are made: provider, providerSpec, references to
        Secrets and, if the old class says it, a node template. Of its metadata only labels and annotations
        are taken; name and namespace are those of the old class. Changes nothing, and answers the same for
        the same class. ``InvalidArgument`` for one that the driver does not understand; what is ``Internal``
        or may pass is asked again.
        """
        ...


@runtime_checkable
class Local(Protocol):
    """A driver whose VMs run on this machine: what serves here may have to be reached by them."""

    async def host_address(self) -> str:
        """This machine's address as its VMs see it, which is there from now on; empty: they do not reach it.
        Raises a DriverError where it cannot be had.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """A driver that has something open: a session, a file, a channel."""

    async def close(self) -> None:
        """Close everything, within ten seconds. Called once, after the last call has ended; must not
        raise."""
        ...
