"""Scenes of a Machine of MCM's API: both clusters' caches, the calls of its driver, and what the look must say."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.core import NODE, POD, SECRET, Secret
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_SET,
    LastOperation,
    Machine,
    MachineClass,
)
from kubewright.api.meta import OwnerReference
from kubewright.api.storage import VOLUME_ATTACHMENT, VolumeAttachment
from kubewright.driver.contract import MachineRequest
from kubewright.driver.errors import Code
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb, VmSeen
from kubewright.machines.caches import Caches, LookDeps
from kubewright.machines.machine.applied import Specs
from kubewright.machines.machine.decide import refusal_of
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.memory import Memory, Moments
from kubewright.machines.machine.seen import Begun, Record, Refused, Seen
from kubewright.machines.migration.old_classes import OldClasses
from kubewright.machines.settings import MachineSettings, ReplacementCounts
from kubewright.nodes.drain.volumes import Attachment
from kubewright.nodes.health import Health
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.testing.clocks import ManualClock
from kubewright.testing.looks import Look, Named, Scene, Shelf
from kubewright.testing.scenes import NOW, READY, SILENT, VM, called, machine, minutes, node
from kubewright.wire.errors import Forbidden
from kubewright.wire.gvk import Key, Resource

SETTINGS, ALONE = MachineSettings(), MachineSettings(joins=False)
WANTS_TOKEN = b"join <<BOOTSTRAP_TOKEN>>"
POD_PATH = POD.resource.path()
OLD_KIND = Resource("machine.sapcloud.io", "v1alpha1", "awsmachineclasses", "AWSMachineClass")


class Calls:
    """What is known of VMs: the same of all. ``asked``: what the doubt of a creation was asked with."""

    def __init__(
        self, vm: VmSeen = NOTHING, doubt: datetime | None = None, console: ConsoleSeen | None = None
    ) -> None:
        self.vm, self.doubt, self.ended = vm, doubt, console
        self.asked: list[dict[str, Any]] = []

    def seen(self, uid: str) -> VmSeen:
        return self.vm

    def console(self, uid: str) -> ConsoleSeen | None:
        return self.ended

    def doubt_until(self, uid: str, **facts: Any) -> datetime | None:
        self.asked.append(facts)
        return self.doubt


class Machines(Shelf):
    """Both clusters on one shelf, and the looker."""

    def __init__(
        self,
        calls: Calls | None = None,
        *,
        settings: MachineSettings = SETTINGS,
        one_clock: bool = False,
        shard: Shard = WHOLE,
        visible: bool = True,
        console: str = "",
    ) -> None:
        super().__init__(ManualClock())
        old_classes = OldClasses([OLD_KIND])

        async def ends(request: MachineRequest) -> str:
            return f"{request.machine_class.name}: {console}"

        self.clock.ahead = (NOW - self.clock.now()).total_seconds()
        self.calls = calls or Calls()
        self.in_caches = Caches(self.caches, self.caches, settings, old_classes)
        self.moments = Moments(self.client.steady())
        deps = LookDeps(
            target=self.client,
            caches=self.in_caches,
            clock=self.clock,
            settings=settings,
            shard=shard,
            one_clock=one_clock,
            console=ends if console else None,
            hot_fields=lambda _class: ["tags"],
        )
        self.memory = Memory(self.moments, settings.unreachable_after)
        self.looker = Looker(deps, self.calls, self.memory)
        if visible:
            for each in (self.in_caches.machines, self.in_caches.nodes):
                each.visibility.gained(0)

    async def look(self, of: Machine, *, busy: bool = False, at: float = 0) -> Seen:
        self.clock.passed = at
        return await self.looker.look(of, busy=busy)


def counted(machines: Machines, other: Machine) -> None:
    """Another worker has just decided to replace it."""
    key = Key(other.metadata.namespace, other.metadata.name)
    machines.memory.begin_replacement(key, machines.looker.group_of(other))


def klass(*, secret: str = "", **spec: Any) -> MachineClass:
    refs = {"secretRef": {"name": secret, "namespace": "default"}} if secret else {}
    meta = {"name": "small", "namespace": "default", "uid": "class", "generation": 3}
    return MACHINE_CLASS.from_plain({"metadata": meta, "provider": "sim", "providerSpec": {}, **refs, **spec})


def of_old_kind() -> Machine:
    """A machine whose class is one of those before MachineClass."""
    of = machine("Running")
    reference = structs.replace(of.spec.machine_class, kind=OLD_KIND.kind)
    return structs.replace(of, spec=structs.replace(of.spec, machine_class=reference))


def user_data(text: bytes) -> Secret:
    meta = {"name": "user-data", "namespace": "default"}
    return structs.replace(SECRET.from_plain({"metadata": meta}), data={"userData": text})


def attachment(name: str, volume: str, at: str = "m1", **meta: Any) -> VolumeAttachment:
    source = {"persistentVolumeName": volume}
    plain = {"metadata": {"name": name, **meta}, "spec": {"nodeName": at, "source": source}}
    return VOLUME_ATTACHMENT.from_plain({**plain, "status": {"attached": True}})


def deleted(**more: Any) -> Machine:
    return machine("Terminating", deleted=minutes(1), **more)


def named(of: Machine, name: str, **spec: Any) -> Machine:
    """Another machine than ``of``, alike."""
    meta = structs.replace(of.metadata, name=name, uid=f"uid-{name}")
    return structs.replace(of, metadata=meta, spec=structs.replace(of.spec, **spec))


def scene(
    of: Machine,
    *there: tuple[Any, Any],
    calls: Calls | None = None,
    busy: bool = False,
    at: float = 0,
    before: Callable[[Machines], object] = lambda _machines: None,
    **how: Any,
) -> Callable[[], Awaitable[Seen]]:
    """A look at ``of``, with these objects in the caches."""

    async def look() -> Seen:
        machines = Machines(calls, **how)
        for kind, each in there:
            await machines.put(kind, each)
        before(machines)
        return await machines.look(of, busy=busy, at=at)

    return look


def _refused(machines: Machines) -> None:
    machines.memory.refuse("u1", refusal_of(Record(VM), Forbidden("no"), NOW))


def _hidden(machines: Machines) -> None:
    machines.answers[POD_PATH] = Forbidden("no")


def _others_drain(machines: Machines) -> None:
    for number in range(2):
        machines.memory.notes(named(deleted(), f"other-{number}"), keep=False)


def _gap(machines: Machines) -> None:
    visibility = machines.in_caches.nodes.visibility
    visibility.lost(100)
    visibility.gained(200)


def _gap_now(machines: Machines) -> None:
    machines.in_caches.nodes.visibility.lost(100)


OFFERS = {
    "capacity": {"cpu": 1, "gpu": 0, "memory": "1Gi"},
    "instanceType": "small",
    "region": "here",
    "zone": "a",
    "virtualCapacity": {"x": 1},
}
CORDONED = structs.replace(node(READY, cordoned=True), metadata=node().metadata)
POOL = machine("Unknown")
NOT_COUNTED = {f"counts.{each}": value for each, value in asdict(ReplacementCounts()).items()}
NOT_BEGUN = {f"begun.{each}": value for each, value in asdict(Begun()).items()}
REFUSAL = Refused(
    Record(VM),
    "The API server refused to record the machine's VM: no",
    Code.PermissionDenied,
    NOW + minutes(3),
)


async def _drained() -> Seen:
    """Two looks: the node was empty at the first one already."""
    machines = Machines()
    await machines.put(NODE, CORDONED)
    await machines.look(deleted())
    return await machines.look(deleted(), at=60)


async def _given_up() -> Seen:
    machines = Machines(console="panic")
    await machines.put(MACHINE_CLASS, klass())
    return await machines.looker.with_console(await machines.look(machine("Unknown")))


async def _given_up_without_a_class() -> Seen:
    machines = Machines(console="panic")
    return await machines.looker.with_console(await machines.look(machine("Unknown")))


async def _in_deletion_since_it_ran() -> Seen:
    machines = Machines()
    await machines.look(structs.replace(deleted(), status=machine("Running").status))
    return await machines.look(deleted(), at=1)


async def _followed() -> Seen:
    """This process saw it come, and saw its phase change, its node's condition and its update's stage."""
    machines = Machines(one_clock=True)
    told = {"type": "InPlaceUpdate", "status": "True", "reason": "SelectedForUpdate"}
    selected = NODE.from_plain(
        {"metadata": {"name": "m1"}, "status": {"conditions": [told]}}
    ).status.conditions
    await machines.put(NODE, node(READY))
    await machines.look(machine("Running"))
    await machines.put(NODE, node(SILENT, *selected))
    return await machines.look(machine("Unknown"), at=30)


async def _failed_meanwhile() -> Seen:
    machines = Machines()
    await machines.look(machine("Pending", operation=LastOperation(type="Create", state="Processing")))
    return await machines.look(
        machine("Pending", operation=LastOperation(type="Create", state="Failed")), at=30
    )


async def _made_and_deleted() -> Seen:
    machines = Machines()
    machines.in_caches.machines.subscribe(lambda change: machines.moments.on_change(change, live=True))
    await machines.put(MACHINE, machine("Running"))
    machines.clock.passed = 10
    await machines.put(MACHINE, deleted())
    return await machines.look(deleted(), at=15)


def _stepped(machines: Machines) -> None:
    """A user sets the wall clock after this process has begun."""
    machines.moments.now()
    machines.clock.ahead += 3600


SET = MACHINE_SET.from_plain(
    {
        "metadata": {
            "name": "set",
            "namespace": "default",
            "uid": "set",
            "annotations": {names.MAX_REPLACEMENTS_ANNOTATION: "2"},
            "ownerReferences": [
                {
                    "apiVersion": "machine.sapcloud.io/v1alpha1",
                    "kind": "MachineDeployment",
                    "name": "d",
                    "uid": "d",
                }
                | {"controller": True}
            ],
        }
    }
)


def owned(of: Machine) -> Machine:
    """The machine as one of the set's."""
    ref = OwnerReference(
        api_version="machine.sapcloud.io/v1alpha1", kind="MachineSet", name="set", uid="set", controller=True
    )
    return structs.replace(of, metadata=structs.replace(of.metadata, owner_references=(ref,)))


IN_SET = (
    (MACHINE_SET, SET),
    (MACHINE, owned(machine("Unknown"))),
    (MACHINE, owned(named(machine("Running"), "m2"))),
    (MACHINE, owned(named(machine("Running"), "m3"))),
    (MACHINE, named(machine("Unknown"), "m4")),
)


LOOK = Look(
    "machines.machine.look",
    Seen,
    (
        Scene(
            "a class of an old kind that nothing has tried to migrate yet",
            scene(of_old_kind()),
            {
                "untried": True,
                "secret_missing": True,
                "problem": 'AWSMachineClass "small" is not migrated to MachineClass yet',
            },
        ),
        Scene(
            "a machine without a class, a node or a call",
            scene(machine("Running")),
            {
                "machine": machine("Running"),
                "settings": SETTINGS,
                "now": NOW,
                "wall": NOW,
                **NOT_BEGUN,
                "vm": NOTHING,
                "node": None,
                "health": Health(healthy=False, because="the node has no conditions"),
                "problem": 'MachineClass "small" not found in namespace "default"',
                "can_call": False,
                "secret_missing": False,
                "untried": False,
                "inputs": "",
                "specs": None,
                "capacity": None,
                "name_conflict": False,
                "doubt_until": None,
                "before": None,
                "drain": None,
                "drains_at_once": 1,
                "drained_since": None,
                "attachments": (),
                **NOT_COUNTED,
                "has_token": True,
                "busy": False,
                "visible_since": None,
                "watching_since": NOW,
                "unreachable": "",
                "refused": (),
                "unread": None,
            },
        ),
        Scene(
            "a machine with everything",
            scene(
                machine("Unknown"),
                (MACHINE_CLASS, klass(secret="user-data", nodeTemplate=OFFERS)),
                (SECRET, user_data(WANTS_TOKEN)),
                (NODE, node(SILENT)),
                calls=Calls(called(Verb.LOOK, absent=True), NOW + minutes(1)),
                busy=True,
                at=20,
            ),
            {
                "machine": machine("Unknown"),
                "now": NOW + timedelta(seconds=20),
                "wall": NOW + timedelta(seconds=20),
                "vm": called(Verb.LOOK, absent=True),
                "node": Named("m1"),
                "health.healthy": False,
                "problem": "",
                "can_call": True,
                "inputs": "class/3/102",
                "capacity": {"x": 1},
                "doubt_until": NOW + minutes(1),
                "has_token": True,
                "busy": True,
            },
        ),
        Scene(
            "its VM may have other tags than its class says",
            scene(machine("Running"), (MACHINE_CLASS, klass(providerSpec={"tags": {"a": "1"}}))),
            {"specs": Specs({"tags": {"a": "1"}}, of="small", hot=("tags",))},
        ),
        Scene(
            "another process may still update its VM",
            scene(
                machine("Running", operation=LastOperation(type="Update", state="Processing")),
                (MACHINE_CLASS, klass()),
                calls=Calls(doubt=NOW + minutes(1)),
            ),
            {"specs": Specs({}, of="small", hot=("tags",), in_flight=True, settled_at=NOW + minutes(1))},
        ),
        Scene(
            "its secret is missing",
            scene(machine(""), (MACHINE_CLASS, klass(secret="user-data"))),
            {
                "secret_missing": True,
                "can_call": False,
                "problem": 'Secret "default/user-data" of MachineClass "small" not found',
            },
        ),
        Scene(
            "its user data want no token",
            scene(
                machine(""),
                (MACHINE_CLASS, klass(secret="user-data")),
                (SECRET, user_data(b"join")),
                (NODE, node(READY)),
            ),
            {"has_token": False, "health": Health(healthy=True, because="")},
        ),
        Scene(
            "nothing joins here", scene(machine(""), settings=ALONE), {"settings": ALONE, "has_token": False}
        ),
        Scene(
            "another VM's node has its name",
            scene(
                named(machine("Running"), "m2"),
                (
                    NODE,
                    structs.replace(
                        node(), spec=structs.replace(node().spec, provider_id="sim:///here/vm-2")
                    ),
                ),
            ),
            {"name_conflict": True, "node": None},
        ),
        Scene(
            "in deletion, with a node that drains",
            scene(
                deleted(),
                (NODE, CORDONED),
                (
                    VOLUME_ATTACHMENT,
                    attachment(
                        "b", "pv-b", uid="b", deletionTimestamp="2030-01-01T00:00:00Z", finalizers=["csi"]
                    ),
                ),
                (VOLUME_ATTACHMENT, attachment("a", "pv-a", uid="a")),
                (VOLUME_ATTACHMENT, attachment("c", "pv-c", at="m2")),
                before=_others_drain,
            ),
            {
                "drains_at_once": 3,
                "drain.done": True,
                "drained_since": NOW,
                "attachments": (Attachment("a", "a"), Attachment("b", "b", deleting=True)),
                "before": deleted().status,
            },
        ),
        Scene("drained a minute ago", _drained, {"drained_since": NOW, "now": NOW + minutes(1)}),
        Scene(
            "it ran when its deletion was first seen",
            _in_deletion_since_it_ran,
            {"before": machine("Running").status},
        ),
        Scene(
            "its pods may not be listed",
            scene(deleted(), (NODE, CORDONED), before=_hidden),
            {"drain": None, "unread.unanswered": False, "unread.wait": minutes(3)},
        ),
        Scene(
            "what this process saw begin",
            _followed,
            {
                "begun.phase_since": NOW + timedelta(seconds=30),
                "begun.node_since": {"Ready": NOW + timedelta(seconds=30)},
                "begun.update_since": NOW + timedelta(seconds=30),
            },
        ),
        Scene(
            "this process saw its operation fail",
            _failed_meanwhile,
            {"begun.boot_since": NOW + timedelta(seconds=30)},
        ),
        Scene(
            "another machine of its set is replaced",
            scene(
                POOL,
                (MACHINE, POOL),
                before=lambda machines: counted(machines, named(POOL, "m9")),
            ),
            {"counts.unhealthy": 1, "counts.joined": 1, "counts.turn": timedelta()},
        ),
        Scene(
            "made and deleted before our eyes",
            _made_and_deleted,
            {"begun.created": NOW, "begun.deleted": NOW + timedelta(seconds=10), "before": deleted().status},
        ),
        Scene(
            "the wall clock was set",
            scene(machine("Running"), before=_stepped, at=5),
            {"now": NOW + timedelta(seconds=5), "wall": NOW + timedelta(seconds=3605)},
        ),
        Scene(
            "one of a set, of which another one is replaced",
            scene(
                owned(machine("Unknown")),
                *IN_SET,
                shard=Shard(1, 2),
                before=lambda machines: counted(machines, owned(named(POOL, "m9"))),
            ),
            {
                "counts.replacing": 1,
                "counts.members": 3,
                "counts.limit": "2",
                "counts.unhealthy": 2,
                "counts.joined": 4,
                "counts.turn": Shard(1, 2).until_turn("d", NOW),
            },
        ),
        Scene("one of a set that is well", scene(owned(machine("Running")), *IN_SET), NOT_COUNTED),
        Scene("it is given up", _given_up, {"console": "small: panic"}),
        Scene("it is given up, and its class is gone", _given_up_without_a_class, {"console": ""}),
        Scene("a write was refused", scene(machine("Running"), before=_refused), {"refused": (REFUSAL,)}),
        Scene(
            "a write was refused long ago",
            scene(machine("Running"), before=_refused, at=200),
            {"refused": ()},
        ),
        Scene(
            "neither cluster was ever seen",
            scene(machine("Running"), visible=False, at=50),
            {"unreachable": "control", "watching_since": NOW + timedelta(seconds=50)},
        ),
        Scene(
            "the nodes cannot be seen",
            scene(machine("Running"), before=_gap_now, at=131),
            {"unreachable": "target"},
        ),
        Scene(
            "they could not be seen for a while",
            scene(machine("Running"), before=_gap, at=300),
            {
                "unreachable": "",
                "visible_since": NOW + timedelta(seconds=200),
                "watching_since": NOW,
                "now": NOW + timedelta(seconds=300),
            },
        ),
    ),
    parts={"counts": ReplacementCounts, "begun": Begun},
)
