"""Read everything that ``Seen`` holds: the caches, and the live pods of a node that drains.

Theory.      The control cluster has the machines, their classes and secrets; the target cluster
             has the nodes. Both are read from caches that already show our own writes. A node
             belongs to a machine when it has the recorded name, and no other providerID.
Invariants.  Only ``_pods`` talks to a server, and only for a machine that drains.
Called by    ``reconciler.Machines``. What it finds is ``observe.Seen``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kubewright.api.core import NODE, POD, SECRET, VOLUME_ATTACHMENT, Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_SET, Machine, MachineClass
from kubewright.api.machine.validate import validate_class, validate_machine
from kubewright.driver.contract import MachineClassRef, MachineRequest
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.machines.machine import userdata
from kubewright.machines.machine.calls import VmCalls
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import Verb
from kubewright.machines.parts import Parts
from kubewright.nodes import health
from kubewright.nodes.drain import plan as drains
from kubewright.wire.gvk import Key

BUSY_WITH_REPLACEMENT = frozenset(
    (Phase.NONE, Phase.PENDING, Phase.CRASH_LOOP_BACK_OFF, Phase.FAILED, Phase.TERMINATING)
)
"""Phases of a machine that is on its way out or in, and so uses up its deployment's ration (mcm.md §4.8)."""


@dataclass(slots=True)
class Notes:
    """What a process remembers of one machine between passes; losing it costs time, never safety."""

    drained_since: datetime | None = None
    tries: drains.Tries = field(default_factory=dict)
    """What came of asking its pods to leave."""


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """A class with its secrets merged, or the reason why there is none."""

    machine_class: MachineClass | None = None
    secret: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    problem: str = ""
    version: str = ""


class Caches:
    """The informers of both clusters that machines are decided by, with their indexes."""

    def __init__(self, control: Informers, target: Informers) -> None:
        self.machines: Informer[Machine] = control.get(MACHINE)
        self.sets = control.get(MACHINE_SET)
        self.classes = control.get(MACHINE_CLASS)
        self.secrets = control.get(SECRET)
        self.nodes: Informer[Node] = target.get(NODE, namespace="")
        self.attachments = target.get(VOLUME_ATTACHMENT, namespace="")
        self.machines.index("node", lambda m: (names.node_name(m.metadata.labels),))
        self.machines.index("provider-id", lambda m: (m.spec.provider_id,))
        self.machines.index("replacing", _ration_used)
        self.machines.index("class", lambda m: (str(Key(m.metadata.namespace, m.spec.machine_class.name)),))
        self.nodes.index("provider-id", lambda n: (n.spec.provider_id,))
        self.attachments.index("node", lambda a: (a.spec.node_name,))
        self.classes.index("secret", lambda c: (str(key) for key in secret_keys(c)))


class Looker:
    """Makes ``Seen`` from the caches, the calls and the notes."""

    def __init__(self, parts: Parts, caches: Caches, calls: VmCalls) -> None:
        self._caches = caches
        self._target = parts.target
        self._calls = calls
        self._clock = parts.clock
        self._settings = parts.settings
        self.notes: dict[str, Notes] = {}
        self.claims: dict[str, str] = {}
        """Machines whose failing is decided but not yet written: uid to ration group."""

    async def look(self, key: Key, busy: bool) -> Seen | None:
        """The whole picture of one machine; None when there is none."""
        machine = self._caches.machines.get(key)
        if machine is None:
            return None
        node, uid = self._node_of(machine), machine.metadata.uid
        found = self._class_of(machine)
        seen = Seen(
            machine=machine,
            settings=self._settings,
            now=self._clock.now(),
            vm=self._calls.seen(uid),
            node=node,
            health=self._health_of(machine, node),
            problem=_problem(machine, found),
            can_call=found.machine_class is not None,
            inputs=f"{machine.metadata.generation}/{found.version}",
            doubt_until=self._doubt_until(machine),
            replacing=self._replacing(machine),
            has_token=userdata.wants_token(found.secret.get("userData", b"")),
            busy=busy,
        )
        return await self._with_drain(seen) if machine.metadata.deleting and node else seen

    def request(self, machine: Machine, user_data: bytes | None = None) -> MachineRequest:
        """What the driver is told; ``user_data`` is already filled in for the calls that need it."""
        found = self._class_of(machine)
        secret = dict(found.secret) if user_data is None else {**found.secret, "userData": user_data}
        cls = found.machine_class or MachineClass()
        return MachineRequest(
            name=machine.metadata.name,
            namespace=machine.metadata.namespace,
            owner_uid=machine.metadata.uid,
            machine_class=MachineClassRef(
                cls.metadata.name, cls.metadata.namespace, cls.provider, cls.provider_spec, secret
            ),
            provider_id=machine.spec.provider_id,
            node_name=names.node_name(machine.metadata.labels),
            labels=machine.metadata.labels,
            last_known_state=machine.status.last_known_state,
        )

    def user_data(self, machine: Machine) -> bytes:
        """The class's user data as its secret has it, placeholders and all."""
        return self._class_of(machine).secret.get("userData", b"")

    def forget(self, uid: str) -> None:
        self.notes.pop(uid, None)
        self.claims.pop(uid, None)

    def group_of(self, machine: Machine) -> str:
        """Who shares the ration of replacements: a deployment's machines, else a set's, else nobody."""
        owner = machine.metadata.controller
        if owner is None:
            return machine.metadata.labels.get(names.DEPLOYMENT_NAME_LABEL, machine.metadata.uid)
        parent = self._caches.sets.header(Key(machine.metadata.namespace, owner.name))
        return (parent.owner_uid if parent else "") or owner.uid

    def _node_of(self, machine: Machine) -> Node | None:
        name, wanted = names.node_name(machine.metadata.labels), machine.spec.provider_id
        node = self._caches.nodes.get(Key("", name)) if name else None
        if node is not None and (not node.spec.provider_id or not wanted or node.spec.provider_id == wanted):
            return node
        return next(iter(self._caches.nodes.by("provider-id", wanted)), None) if wanted else None

    def _health_of(self, machine: Machine, node: Node | None) -> health.Health:
        own = machine.spec.node_conditions
        types = names.condition_list(own) if own else self._settings.node_conditions
        return health.judge(node.status.conditions if node else (), types)

    def _doubt_until(self, machine: Machine) -> datetime | None:
        born = machine.metadata.creation_timestamp
        inherited = self._calls.started if born is None or born <= self._calls.started else None
        moments = [moment for moment in (inherited, self._calls.seen(machine.metadata.uid).doubt) if moment]
        return max(moments) + self._settings.confirm_absent if moments else None

    def _replacing(self, machine: Machine) -> int:
        """Other machines of the deployment that are on their way out or in (mcm.md §4.8)."""
        if machine.status.current_status.phase != Phase.UNKNOWN:
            return 0
        group = self.group_of(machine)
        sets = self._caches.sets.keys_by("owner", group)
        owners = [header.uid for key in sets if (header := self._caches.sets.header(key))] or [group]
        counted = sum(len(self._caches.machines.keys_by("replacing", owner)) for owner in owners)
        claims = (uid for uid, claim in self.claims.items() if claim == group and uid != machine.metadata.uid)
        return counted + sum(1 for _ in claims)

    def _class_of(self, machine: Machine) -> ClassSeen:
        name, namespace = machine.spec.machine_class.name, machine.metadata.namespace
        found = self._caches.classes.get(Key(namespace, name))
        if found is None:
            return ClassSeen(problem=f'MachineClass "{name}" not found in namespace "{namespace}"')
        secret: dict[str, bytes] = {}
        versions = [found.metadata.resource_version]
        for key in secret_keys(found):
            if (part := self._caches.secrets.get(key)) is None:
                return ClassSeen(found, problem=f'Secret "{key}" of MachineClass "{name}" not found')
            secret |= part.data
            versions.append(part.metadata.resource_version)
        problem = ""
        if found.secret_ref is not None and "userData" not in secret:
            problem = f'userdata field not found in secret for machine "{machine.metadata.name}"'
        return ClassSeen(found, secret, problem, "/".join(versions))

    async def _with_drain(self, seen: Seen) -> Seen:
        node = seen.node
        assert node is not None
        over = seen.vm.verb is Verb.DELETE or not node.spec.unschedulable
        if over:
            return seen
        pods = await self._target.list(POD, fields=f"spec.nodeName={node.metadata.name}")
        notes = self.notes.setdefault(seen.machine.metadata.uid, Notes())
        drain = drains.plan(
            pods,
            now=seen.now,
            started=seen.deleted_at,
            timeout=seen.drain_timeout,
            max_retries=seen.machine.spec.max_evict_retries or self._settings.max_evict_retries,
            force=names.force_deletion(seen.machine.metadata.labels),
            conditions=node.status.conditions,
            tries=notes.tries,
        )
        if drain.done and notes.drained_since is None:
            notes.drained_since = seen.now
        attachments = tuple(
            sorted(
                item.metadata.name
                for item in self._caches.attachments.by("node", node.metadata.name)
                if not item.metadata.deleting
            )
        )
        return replace(seen, drain=drain, drained_since=notes.drained_since, attachments=attachments)


def secret_keys(machine_class: MachineClass) -> list[Key]:
    """The secrets of a class, in the order in which later ones override earlier ones."""
    refs = (machine_class.secret_ref, machine_class.credentials_secret_ref)
    here = machine_class.metadata.namespace
    return [Key(ref.namespace or here, ref.name) for ref in refs if ref is not None and ref.name]


def _ration_used(machine: Machine) -> tuple[str, ...]:
    """Index: the owner of a machine that is being replaced, or is a replacement on its way in."""
    owner, phase = machine.metadata.controller, machine.status.current_status.phase
    used = machine.metadata.deleting or phase in BUSY_WITH_REPLACEMENT
    return (owner.uid,) if used and owner is not None else ()


def _problem(machine: Machine, found: ClassSeen) -> str:
    errors = [*validate_machine(machine)]
    if found.machine_class is not None:
        errors += validate_class(found.machine_class)
    return "; ".join(str(error) for error in errors) or found.problem
