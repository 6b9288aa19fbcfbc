"""The contract between the controllers of components and the hosts that run their programs.

Theory.      A workload is all instances of one component. Every instance has an ordinal, a name that follows
             from it, and a host name or address by which the others reach it; these are known before anything
             runs, since certificates and other components contain them. ``apply`` says what should run. It
             starts missing instances and ends those beyond the number, but an instance that runs with other
             settings goes on: ``replace`` ends exactly one, which is started again with what was applied
             last. So the order of a rollout, and how many instances may be missing, is decided in one place
             for all hosts, by a pure function.
Invariants.  ``addresses``, ``problem_of`` and ``status`` use only memory and files of this machine: they
             never wait. Every effect can be repeated. The content of Secrets appears in no repr, no command
             line, no log, and in no file that other users can read. After a restart of this program
             ``status`` finds what runs, and nothing is started twice. A workload that runs is found in
             whichever host has it (``Hosts``), so it can always be ended.
Hosts.       A component of version ``embedded`` is a part of our own API server, which a program can run in
             its own process: ``kubewright up``, and ``run`` with the simulated cloud. All other versions are
             real programs: processes of this machine, or pods on a Kubernetes; ``compose`` decides which of
             the two a program has.
Variables.   Every instance has ``INSTANCE`` (its name), ``HOST``, ``ADDRESS`` (to listen on), ``NAMESPACE``,
             ``PKI_DIR``, ``FILES_DIR``, ``DATA_DIR``, ``ADVERTISE_ADDRESS``, ``ENDPOINT_RECONCILER``, and
             those of ``Workload.environment``; arguments in templates name them.
Called by    the controllers of components, of snapshots and of restores; ``compose`` makes the hosts.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol, runtime_checkable

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.controlplanes.members import Credentials
from kubewright.controlplanes.templates.render import Rendered
from kubewright.wire.gvk import Key

Contents = Mapping[str, bytes]
"""The data of a Secret or a ConfigMap, by its keys."""


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """The identity of a workload: which component of which control plane. All names follow from it.

    ``cluster``   the name with which names of Secrets, StatefulSets and processes begin
    ``object``    the component object: it owns what is made for it, and ``listen`` reports its key
    """

    namespace: str
    cluster: str
    component: Component
    object: OwnerReference

    @property
    def key(self) -> Key:
        """The key of the component object; that of its control plane is another."""
        return Key(self.namespace, self.object.name)

    @property
    def workload(self) -> str:
        """The name of the workload: ``<cluster>-etcd``."""
        return f"{self.cluster}-{self.component}"

    def instance(self, ordinal: int) -> str:
        """The name of an instance: ``<cluster>-etcd-0``."""
        return f"{self.workload}-{ordinal}"


@dataclass(frozen=True, slots=True)
class WorkloadAddresses:
    """The addresses of a workload, known before it runs.

    ``hosts``      for each instance, by ordinal: the DNS name or address by which the others reach it; empty
                   where instances are reached by the endpoint alone
    ``endpoint``   host and port by which clients reach the workload as a whole; None: not known yet
    ``also``       further subject alternative names (DNS names, addresses) for certificates of its servers
    ``surges``     whether a workload of one instance is replaced as with ``maxSurge: 1``: one more runs
                   meanwhile, and clients reach it at the same endpoint
    ``waits``      why not all of these addresses are known yet, a clause; empty: they are
    """

    hosts: tuple[str, ...] = ()
    endpoint: tuple[str, int] | None = None
    also: tuple[str, ...] = ()
    surges: bool = False
    waits: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """What should run for one component.

    ``version``       the version of the component, which the manifests are for
    ``rendered``      the manifests: one StatefulSet, and what belongs to it
    ``contents``      the content of the Secrets that its volumes name, by their names
    ``environment``   further variables of all instances; a change of them replaces no instance
    ``replicas``      how many instances; 0 ends all and keeps their data
    ``config``        the content of the ConfigMaps that its volumes name, by their names
    """

    identity: WorkloadIdentity
    version: str
    rendered: Rendered
    replicas: int
    contents: Mapping[str, Contents] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Contents] = field(default_factory=dict, repr=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the manifests and the contents: an instance with another one has to be replaced.

        The number of instances is no part of it.
        """
        digest = sha256(self.rendered.fingerprint.encode())
        for name, entries in (*sorted(self.contents.items()), *sorted(self.config.items())):
            for key, value in sorted(entries.items()):
                digest.update(f"\0{name}\0{key}\0".encode() + sha256(value).digest())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, as its host sees it.

    ``fingerprint``  of the workload with which it was started
    ``version``      with which it was started; of one inside this process, that of our own API server
    ``ready``        whether it runs, its probes succeed, and it is not ending
    ``ending``       whether it was asked to end
    ``since``        when it was started, in seconds since the epoch; 0.0 if it was not
    ``address``      the address to connect to, where only other instances can resolve ``host``; else empty
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
    """What a host has of a workload: its instances by ordinal; all empty of one that sleeps or was removed.

    ``applied``   the fingerprint of the workload that was applied last; empty if none was
    ``replicas``  how many instances were applied last
    ``exists``    whether the host has anything of it, so that ``remove`` has something to do
    ``service``   the name of the Service of Kubernetes by which clients reach it; empty if there is none
    ``variables`` all variables that the instances got when it was applied last: those of the host, and those
                  of ``Workload.environment``
    ``kept``      how many members an etcd had that was removed with its data kept; 0 where it is not known
    ``data``      of an etcd: the ordinals whose data is really there, while no instance is to run, also where
                  nothing was applied or the host has lost what was; None: not known
    ``closed``    why clients cannot use the endpoint though instances may be ready, a clause; empty: they can
    """

    instances: tuple[Instance, ...] = ()
    applied: str = ""
    replicas: int = 0
    exists: bool = False
    service: str = ""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    kept: int = 0
    data: frozenset[int] | None = None
    closed: str = ""


class Hosting(Protocol):
    """A host: one kind of place where components run."""

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        """The addresses of a workload, which it reserves; the same answer for the same arguments.

        Raises:
            InvalidInput: there is no address left for it.
        """
        ...

    def problem_of(self, workload: Workload) -> str:
        """Why this host cannot run a workload, and what would help: a sentence; empty if it can."""
        ...

    def status(self, identity: WorkloadIdentity) -> Running:
        """What this host has of a workload."""
        ...

    async def apply(self, workload: Workload) -> None:
        """From now on this workload should run. Instances with other settings go on until ``replace``.

        An instance beyond the number is ended, and its data is deleted: it is no longer a member of its etcd
        and could not join again with that data. With 0 replicas all data stays.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        """End this instance, and start it again with what was applied last. No effect if there is none.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """End all instances and, unless ``keep_data``, delete their data. ``status`` says when it is done.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    def listen(self, changed: Callable[[Key], None]) -> None:
        """Call ``changed`` with the key of the component object whenever ``status`` may have changed."""
        ...


@runtime_checkable
class Reserves(Protocol):
    """A host where a part of a workload has to be there before its addresses are known: its Services."""

    def must_reserve(self, workload: Workload) -> bool:
        """Whether that part has to be made: it is not there, or was made for other settings.

        The content of volumes is not read for that.
        """
        ...

    async def reserve(self, workload: Workload) -> None:
        """Make that part as this workload says. Nothing is started.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...


@runtime_checkable
class SavesData(Protocol):
    """A host that copies the data of its etcd itself, because that etcd has no API for it."""

    async def save_data(self, identity: WorkloadIdentity, target: Path) -> None:
        """Write a copy of the data of an etcd, as of one moment, into a new file.

        Raises:
            KubewrightError: it did not work; the message says why.
        """
        ...


Fetch = Callable[[], AbstractAsyncContextManager[Path]]
"""Fetches the file of a snapshot, verified, for as long as it is used. A host may not need it."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """With what the data of an etcd is replaced.

    ``mark``         identifies this replacement: a further call with it goes on where the last one ended
    ``members``      how many members the etcd has when it starts again
    ``fetch``        gives the file of the snapshot
    ``credentials``  gives those of a client of the members
    """

    mark: str
    members: int
    fetch: Fetch = field(repr=False)
    credentials: Callable[[], Awaitable[Credentials]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replaced:
    """How far a replacement of data is.

    ``former``  where the former data of the first member is kept, for people to read; if that is on this
                machine, the path inside Kubewright's own data folder. Empty: there was none
    ``waits``   what it waits for, a clause, to be called again; empty: the data is replaced
    """

    former: str = ""
    waits: str = ""


@runtime_checkable
class ReplacesData(Protocol):
    """A host that can replace the data of an etcd by a snapshot."""

    def lacks_to_replace(self) -> str:
        """What this program or its machine lacks for ``replace_data``, a sentence; empty if nothing."""
        ...

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        """Replace the data of an etcd that is stopped by a snapshot, once for each mark.

        The former data is kept beside it until the etcd is removed. A call that was interrupted is completed
        by the next one with the same mark.

        Raises:
            KubewrightError: it runs, or it did not work; nothing is lost then.
        """
        ...


EMBEDDED = "embedded"
"""The version, and the channel, that stand for our own API server."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of this program, and the folder of snapshots that belongs to them; None: it has no such one.

    ``embedded``   the host of components of version ``embedded``
    ``programs``   the host of all other versions
    ``snapshots``  the folder for files of snapshots
    """

    embedded: Hosting | None = None
    programs: Hosting | None = None
    snapshots: Path | None = None

    def of(self, version: str) -> Hosting | None:
        """The host for a version."""
        return self.embedded if version == EMBEDDED else self.programs

    def holding(self, identity: WorkloadIdentity) -> tuple[Hosting | None, Running]:
        """The host that has something of a workload, and what it has."""
        for host in self._all():
            running = host.status(identity)
            if running.exists:
                return host, running
        return None, Running()

    def listen(self, changed: Callable[[Key], None]) -> None:
        """As ``Hosting.listen``, for all of them."""
        for host in self._all():
            host.listen(changed)

    def _all(self) -> list[Hosting]:
        return [each for each in (self.embedded, self.programs) if each is not None]


def why_absent(version: str) -> str:
    """Why this program cannot run a version, a sentence: it has no host for it."""
    if version == EMBEDDED:
        return (
            "channel embedded is the API server inside of `kubewright up` and `run --driver sim`, and this "
            "program has none: name another channel, or a version"
        )
    return f"this program cannot run version {version}: it has only channel {EMBEDDED}"


def why_elsewhere(version: str) -> str:
    """Why a workload cannot get a version that another host runs, a sentence."""
    return (
        f"it cannot become version {version} while it runs by other means: its data would stay behind; "
        "delete the component, or name a version of the same kind"
    )
