"""The contract between the controllers of components and what runs their programs.

Theory.      A workload is all instances of one component. Every instance has an ordinal, a name that follows
             from it, and a host by which the others reach it; these are known before anything runs, since
             certificates and the other components name them. ``apply`` says what should run. It starts
             instances that are missing and ends those beyond the number, but it leaves an instance that runs
             with other settings alone: ``replace`` ends exactly one, and that one comes back with what was
             applied last. So the order of a rollout, and how many instances may be missing, is decided in
             one place for all hosts, by a pure function.
Invariants.  ``place``, ``problem_of`` and ``status`` look only at what is in memory or in files of this
             machine: they never wait. Every effect can be repeated. What is in Secrets appears in no repr,
             no command line, no log, and in no file that other users can read. After a restart of this
             program ``status`` finds what runs, and nothing is started twice.
Variables.   Every instance has ``INSTANCE`` (its name), ``HOST``, ``ADDRESS`` (to listen on), ``NAMESPACE``,
             ``PKI_DIR``, ``FILES_DIR``, ``DATA_DIR``, ``ADVERTISE_ADDRESS``, ``ENDPOINT_RECONCILER``, and
             those of ``Workload.environment``.
Source       nested.md D4 to D6, A9.
Called by    the controllers of components; ``compose`` makes the implementations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.rendering.render import Rendered
from kubewright.wire.gvk import Key

Contents = Mapping[str, bytes]
"""What is in a Secret or a ConfigMap, by its keys."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which component of which control plane; what runs for it is named after this.

    ``cluster``   the name by which Secrets, StatefulSets and programs begin
    ``object``    the component object: it owns what is made for it, and ``listen`` names its key
    """

    namespace: str
    cluster: str
    component: Component
    object: OwnerReference

    @property
    def key(self) -> Key:
        """The key of the component object."""
        return Key(self.namespace, self.object.name)

    @property
    def workload(self) -> str:
        """The name of the workload: ``<cluster>-etcd``."""
        return f"{self.cluster}-{self.component}"

    def instance(self, ordinal: int) -> str:
        """The name of an instance: ``<cluster>-etcd-0``."""
        return f"{self.workload}-{ordinal}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a workload runs, or is going to.

    ``hosts``      of each instance, by ordinal: DNS names or addresses by which the others reach it
    ``endpoint``   host and port by which clients reach the workload as a whole; None: not known yet
    ``also``       further names and addresses that certificates of its servers have to be good for
    """

    hosts: tuple[str, ...] = ()
    endpoint: tuple[str, int] | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """What should run for one component.

    ``rendered``      the manifests: one StatefulSet, and what belongs to it
    ``contents``      what is in the Secrets and ConfigMaps that its volumes name, by their names
    ``environment``   variables of all instances, known now but no reason to replace an instance
    ``replicas``      how many instances; 0 keeps the data and nothing else
    """

    place: Place
    version: str
    rendered: Rendered
    replicas: int
    contents: Mapping[str, Contents] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Stands for the manifests and the contents: an instance with another one has to be replaced.

        The number of instances is no part of it.
        """
        digest = sha256(self.rendered.fingerprint.encode())
        for name, entries in sorted(self.contents.items()):
            for key, value in sorted(entries.items()):
                digest.update(f"\0{name}\0{key}\0".encode() + sha256(value).digest())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, as it is seen.

    ``fingerprint``  of the workload that it was started for
    ``version``      that it was started with
    ``ready``        it runs, its probes are good, and it is not ending
    ``ending``       it was asked to end
    ``since``        when it was started, in seconds since the epoch; 0.0 if it was not
    ``address``      to connect to, where ``host`` is a name that only the others can resolve; else empty
    ``message``      what is wrong or waited for: the end of a sentence, empty if nothing is
    ``memory``, ``cpu``  resident bytes, and seconds of processor time so far; 0 where they are not known
    """

    ordinal: int
    name: str
    host: str
    address: str = ""
    fingerprint: str = ""
    version: str = ""
    ready: bool = False
    ending: bool = False
    since: float = 0.0
    restarts: int = 0
    message: str = ""
    memory: int = 0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Running:
    """What there is of a workload: its instances by ordinal.

    ``applied``   the fingerprint of the workload that was applied last; empty if none was
    ``replicas``  how many instances were applied last
    ``exists``    whether anything of it is there, so that ``remove`` has something to do
    ``service``   the name of the Service of Kubernetes by which clients reach it; empty if there is none
    ``variables`` of the environment of the instances that were applied last, those of the workload among them
    """

    instances: tuple[Instance, ...] = ()
    applied: str = ""
    replicas: int = 0
    exists: bool = False
    service: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


class Hosting(Protocol):
    """One kind of place where components run."""

    def place(self, place: Place, replicas: int) -> Placement:
        """Where the instances of a workload are reached; the same answer for the same place.

        Raises:
            InvalidInput: there is no address left for it.
        """
        ...

    def problem_of(self, workload: Workload) -> str:
        """Why this cannot run here, and what would help: a sentence; empty if it can."""
        ...

    def status(self, place: Place) -> Running:
        """What there is of a workload."""
        ...

    async def apply(self, workload: Workload) -> None:
        """From now on this should run. Instances that run with other settings go on until ``replace``.

        An instance beyond the number is ended, and its data is deleted: its member is no longer part of the
        cluster and could not come back with it. With no replicas all data stays.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    async def replace(self, place: Place, ordinal: int) -> None:
        """End this instance; it comes back with what was applied last. Nothing happens if it is not there.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    async def remove(self, place: Place, *, keep_data: bool) -> None:
        """End everything of a workload; its data too, unless it is to be kept. ``status`` says when.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    def listen(self, changed: Callable[[Key], None]) -> None:
        """Call ``changed`` with the key of the component object whenever ``status`` may have changed."""
        ...


@runtime_checkable
class SavesData(Protocol):
    """A host whose etcd has no API of its own to copy its data by."""

    async def save_data(self, place: Place, target: Path) -> None:
        """Write a copy of the data of an etcd, as of one moment, into a new file.

        Raises:
            KubewrightError: it did not work; the message says why.
        """
        ...


@runtime_checkable
class ReplacesData(Protocol):
    """A host that can put a snapshot in the place of the data of an etcd."""

    def replacing_needs(self) -> str:
        """What this machine lacks for that, a sentence; empty: nothing."""
        ...

    async def replace_data(self, place: Place, source: Path, mark: str) -> str:
        """Put a snapshot in the place of the data of an etcd that is stopped, once for each ``mark``.

        What was there before is kept beside it until the etcd is removed. A call that was cut short is
        completed by the next one with the same mark.

        Returns:
            Where the former data is; empty: there was none.

        Raises:
            KubewrightError: it runs, or it did not work; nothing is lost then.
        """
        ...
