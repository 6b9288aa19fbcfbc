"""What the caches of both clusters say about one machine: its class, its node, its siblings.

Theory.      The control cluster has the machines, their classes and secrets; the target cluster
             has the nodes. Both are read from caches that already show our own writes, and every
             question is answered by an index. A node belongs to a machine when it has the recorded
             name and no other providerID.
             The limit of replacements is shared by the machines of one deployment; of a set
             without one; else by those with the same label ``name``; a machine alone shares with
             no other.
Called by    ``machine``, ``machineclass``, ``migration``, ``orphans``, ``rolling``; ``cli.explain``.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from kubewright.api.core import NODE, SECRET, Node, Secret
from kubewright.api.kinds import Undecodable
from kubewright.api.machine import names
from kubewright.api.machine.names import OperationType, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_SET, Machine, MachineClass
from kubewright.api.meta import integer
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver, MachineRequest, VolumeSpec
from kubewright.driver.registry import RoutedDriver
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer, Informers
from kubewright.machines.migration.old_classes import OldClasses
from kubewright.machines.settings import MachineSettings, ReplacementCounts, counts_as_replaced
from kubewright.nodes.drain.removals import Removals
from kubewright.nodes.drain.session import VolumeIds
from kubewright.nodes.drain.volumes import Attached, Attachment, without_attachment
from kubewright.runtime.events import Recorder
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

UNHEALTHY = "unhealthy"
"""In index ``joined``: machines that are Unknown, or Failed for their health."""


TOKEN_PLACE, TOKEN_PLACE_QUOTED = b"<<BOOTSTRAP_TOKEN>>", b"%3C%3CBOOTSTRAP_TOKEN%3E%3E"
"""Where a bootstrap token is to stand in the user data of a VM, as it is and in a URL."""


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """A class and what its secrets hold.

    ``machine_class``   None if there is none
    ``secret``          the data of all its secrets, merged; empty if one is missing
    ``secret_missing``  it is there, and what a driver must be told of it is not: it names a secret that does
                        not exist, or cannot be read
    ``untried``         it is of an old kind, and no migration of it has been tried (``migration``)
    ``problem``         why no VM may be made by it; empty if none
    ``version``         changes whenever what a cloud is told does
    """

    machine_class: MachineClass | None = None
    secret: Secret = field(default_factory=Secret)
    secret_missing: bool = False
    untried: bool = False
    problem: str = ""
    version: str = ""

    @property
    def can_call(self) -> bool:
        """Whether a driver may be called: without the class's secrets it could act in another account, and
        report that a VM does not exist which does."""
        return self.machine_class is not None and not self.secret_missing


class Caches:
    """The informers that machines are decided by, with their indexes."""

    def __init__(
        self,
        control: Informers,
        target: Informers,
        settings: MachineSettings,
        old_classes: OldClasses | None = None,
    ) -> None:
        self.old_classes = old_classes or OldClasses()
        self.machines: Informer[Machine] = control.get(MACHINE)
        self.sets = control.get(MACHINE_SET)
        self.classes = control.get(MACHINE_CLASS)
        self.secrets = control.get(SECRET)
        self.nodes: Informer[Node] = target.get(NODE, namespace="")
        self.attachments = target.get(VOLUME_ATTACHMENT, namespace="")
        self.machines.index("node", lambda m: _known(names.node_name(m.metadata.labels)))
        self.machines.index("provider-id", lambda m: _known(m.spec.provider_id))
        self.machines.index("class", lambda m: _known(str(class_key(m) or "")))
        self.machines.index("group", lambda m: _known(_group(m)))
        counts = partial(counts_as_replaced, types=settings.node_conditions)
        self.machines.index("replacing", lambda m: _known(_group(m)) if counts(m) else ())
        self.machines.index("joined", lambda m: _known(_joined(m)))
        self.sets.index("uid", lambda s: (s.metadata.uid,))
        self.nodes.index("provider-id", lambda n: _known(n.spec.provider_id))
        self.attachments.index("node", lambda a: _known(a.spec.node_name))
        self.attachments.index("volume", lambda a: _known(a.spec.source.persistent_volume_name))
        self.classes.index("secret", lambda c: (str(key) for key in secret_keys(c)))

    def unreachable(self, now: float, longest: float) -> str:
        """Which cluster has not been seen for more than ``longest`` seconds; empty if none."""
        clusters = {"control": self.machines.visibility, "target": self.nodes.visibility}
        return next((name for name, visibility in clusters.items() if visibility.lost_for(now) > longest), "")

    def visible_for(self, now: float, longest: float) -> float:
        """For how many seconds both clusters have been seen, but for gaps of ``longest`` at most."""
        watches = (self.machines.visibility, self.nodes.visibility)
        return min(each.visible_for(now, longest) for each in watches)

    def node_of(self, machine: Machine) -> Node | None:
        """The machine's node, once it has joined."""
        name, wanted = names.node_name(machine.metadata.labels), machine.spec.provider_id
        node = self.nodes.get(Key("", name)) if name else None
        if node is not None and belongs(node, machine):
            return node
        return next(iter(self.nodes.by("provider-id", wanted)), None) if wanted else None

    def name_conflict(self, machine: Machine) -> bool:
        """Whether another VM's node has the name that ours is going to register as. A node of
        the machine's own name is no conflict: as in MCM that is a node of an earlier machine of this name,
        which its kubelet takes over."""
        name = names.node_name(machine.metadata.labels)
        if not name or name == machine.metadata.name:
            return False
        node = self.nodes.get(Key("", name))
        return node is not None and not belongs(node, machine)

    def attached(self, node: Node) -> tuple[Attachment, ...]:
        """The VolumeAttachments of a node, those that are being deleted too."""
        metas = [each.metadata for each in self.attachments.by("node", node.metadata.name)]
        return tuple(sorted(Attachment(meta.name, meta.uid, meta.deleting) for meta in metas))

    def volumes_of(self, node: Node) -> Attached:
        """Which PersistentVolumes are attached to a node, and which to another one."""
        name = node.metadata.name

        def elsewhere(volume: str) -> bool:
            found = self.attachments.by("volume", volume)
            return any(each.spec.node_name != name and each.status.attached for each in found)

        here = (each.spec.source.persistent_volume_name for each in self.attachments.by("node", name))
        listed = without_attachment(each.name for each in node.status.volumes_attached)
        return Attached(frozenset(filter(None, here)), elsewhere, listed)

    def class_of(self, machine: Machine) -> ClassSeen:
        """The machine's class and what its secrets hold."""
        ref, namespace = machine.spec.machine_class, machine.metadata.namespace
        if (key := class_key(machine)) is None:
            if self.old_classes.of(ref) is None:
                return ClassSeen(problem=f'spec.class.kind "{ref.kind}" is not MachineClass')
            trouble = self.old_classes.trouble(ref, namespace)  # while it is there, its VM is waited for
            return ClassSeen(secret_missing=not trouble.absent, untried=trouble.untried, problem=trouble.text)
        if problem := self.classes.problem(key):  # it is there, so it is waited for, as a secret would be
            return ClassSeen(
                secret_missing=True, problem=f'MachineClass "{ref.name}" is unreadable: {problem}'
            )
        found = self.classes.get(key)
        if found is None:
            return ClassSeen(problem=f'MachineClass "{ref.name}" not found in namespace "{namespace}"')
        seen = self.with_secrets(found)
        if not seen.problem and found.secret_ref is not None and "userData" not in seen.secret.data:
            where = f'secret "{secret_keys(found)[0]}" of MachineClass "{ref.name}"'
            problem = f'userdata field not found in {where}: it has no key "userData"'
            return replace(seen, problem=problem)
        return seen

    def with_secrets(self, found: MachineClass) -> ClassSeen:
        """A class and what its secrets hold, if all of them are there."""
        return class_seen(found, self.secrets.get)

    def group_of(self, machine: Machine) -> str:
        """The uid or label by which machines share the limit of replacements with this one."""
        owner = machine.metadata.controller
        if owner is None:
            return _label_group(machine) or machine.metadata.uid
        parent = self.sets.header(Key(machine.metadata.namespace, owner.name))
        return (parent.owner_uid if parent and parent.uid == owner.uid else "") or owner.uid

    def counts(self, group: str) -> ReplacementCounts:
        """What limits the replacements of a group; the same effort for one machine and ten thousand."""
        keys = self.sets.keys_by("owner", group) or self.sets.keys_by("uid", group)
        owners = [header.uid for key in keys if (header := self.sets.header(key))] or [group]
        unhealthy, running = (self.machines.count_by("joined", each) for each in (UNHEALTHY, Phase.RUNNING))
        return ReplacementCounts(
            replacing=self._count("replacing", owners),
            members=max(1, self._count("group", owners)),
            limit=self._limit(keys),
            unhealthy=unhealthy,
            joined=unhealthy + running,
        )

    def _limit(self, keys: Iterable[Key]) -> str:
        """What the deployment's annotation says: the one of its newest set, which is kept like it."""
        found: list[tuple[int, str]] = []
        for key in keys:
            with suppress(Undecodable):
                annotations = each.metadata.annotations if (each := self.sets.get(key)) else {}
                limit = annotations.get(names.MAX_REPLACEMENTS_ANNOTATION, "")
                found.append((integer(annotations, names.REVISION_ANNOTATION), limit))
        return max(found, default=(0, ""))[1]

    def _count(self, index: str, owners: Iterable[str]) -> int:
        return sum(self.machines.count_by(index, owner) for owner in owners)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookDeps:
    """What a look at a machine needs.

    ``target`` has the nodes; it may be the server of the machines, too. ``shard``: which machines this
    process works on. ``volume_ids`` asks the driver for the ids of a volume, ``console`` for the end of what
    a VM wrote to its console, ``hot_fields`` for what it can change on a VM that runs; None: there is none
    to ask. ``one_clock``: the server of the machines is in this process (``kube.client.Client``).
    """

    target: Client
    caches: Caches
    clock: Clock
    settings: MachineSettings
    shard: Shard = WHOLE
    volume_ids: VolumeIds | None = None
    console: Callable[[MachineRequest], Awaitable[str]] | None = None
    hot_fields: Callable[[MachineClass], Sequence[str]] | None = None
    one_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(LookDeps):
    """What the controllers of machines, classes and orphans share, for one term.

    ``control`` has the machines. ``driver`` is guarded (``driver.guard``). ``recorder`` writes events next to
    the machines. ``removals``: what is asked of the pods of nodes that are drained.
    """

    control: Client
    driver: Driver
    recorder: Recorder
    metrics: Metrics
    removals: Removals


def shared_of(environment: Environment, driver: RoutedDriver, settings: MachineSettings) -> Shared:
    """What they share, in the one cluster that all machines of this API join."""
    control, target = environment.control, environment.targets.get(NAMELESS)
    old_classes = OldClasses(driver.migrated_kinds())
    caches = Caches(control.caches, target.caches, settings, old_classes)
    return Shared(
        control=control.client,
        target=target.client,
        caches=caches,
        driver=driver,
        recorder=environment.recorder,
        clock=environment.clock,
        settings=settings,
        metrics=environment.metrics,
        removals=Removals(target.client),
        shard=environment.shard,
        one_clock=control.client.one_clock,
        volume_ids=lambda volume: driver.volume_ids([VolumeSpec(volume.name, volume.spec)]),
        console=driver.console,
        hot_fields=driver.hot_fields,
    )


def class_seen(found: MachineClass, secret_at: Callable[[Key], Secret | None]) -> ClassSeen:
    """A class and what its secrets hold, if all of them are there."""
    data: dict[str, bytes] = {}
    versions = [found.metadata.uid, str(found.metadata.generation)]
    missing: list[str] = []
    for place in _secret_refs(found):
        if not place.name:
            missing.append(f'a secret reference of MachineClass "{found.name}" has no name')
        elif (part := secret_at(place)) is None:
            missing.append(f'Secret "{place}" of MachineClass "{found.name}" not found')
        else:
            data |= part.data
            versions.append(part.metadata.resource_version)
    if missing:
        return ClassSeen(found, secret_missing=True, problem="; ".join(missing))
    return ClassSeen(found, Secret(data=data), version="/".join(versions))


def wants_token(user_data: bytes) -> bool:
    """Whether the VM's user data has a place for a bootstrap token."""
    return TOKEN_PLACE in user_data or TOKEN_PLACE_QUOTED in user_data


def belongs(node: Node, machine: Machine) -> bool:
    """Whether a node of the machine's name is the machine's, as far as providerIDs tell."""
    theirs, ours = node.spec.provider_id, machine.spec.provider_id
    return not theirs or not ours or theirs == ours


def class_key(machine: Machine) -> Key | None:
    """Where the machine's class is; None when it wants a kind that we do not serve."""
    ref = machine.spec.machine_class
    served = ref.kind in ("", MACHINE_CLASS.resource.kind)
    return Key(machine.metadata.namespace, ref.name) if served else None


def secret_keys(machine_class: MachineClass) -> list[Key]:
    """The secrets that a class names."""
    return [place for place in _secret_refs(machine_class) if place.name]


def _secret_refs(machine_class: MachineClass) -> list[Key]:
    """Where the secrets of a class are, in the order in which later ones override earlier ones. A reference
    without a name is one to a secret that does not exist."""
    refs = (machine_class.secret_ref, machine_class.credentials_secret_ref)
    here = machine_class.metadata.namespace
    return [Key(ref.namespace or here, ref.name) for ref in refs if ref is not None]


def _known(value: str) -> tuple[str, ...]:
    """An index's values: none while there is nothing to find the object by."""
    return (value,) if value else ()


def _group(machine: Machine) -> str:
    """The uid or label of those that share limits, below the deployment."""
    return machine.metadata.controller.uid if machine.metadata.controller else _label_group(machine)


def _joined(machine: Machine) -> str:
    """Among the machines that have joined, ``Running`` or ``UNHEALTHY``; empty: it is not among them."""
    current, last = machine.status.current_status.phase, machine.status.last_operation
    if machine.metadata.deleting:
        return ""
    failed = current == Phase.FAILED and last.type == OperationType.HEALTH_CHECK
    return UNHEALTHY if failed or current == Phase.UNKNOWN else current if current == Phase.RUNNING else ""


def _label_group(machine: Machine) -> str:
    label = machine.metadata.labels.get(names.DEPLOYMENT_NAME_LABEL, "")
    return f"{machine.metadata.namespace}/{label}" if label else ""
