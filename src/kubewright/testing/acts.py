"""Scenes for acts: a plan is performed, and the server, the events and the outcome say what came of it.

Theory.      An act turns steps into requests. Whether it sends the right ones shows on the server: what
             stands there afterwards, which writes came and in which order, with the uid and the version that
             each names. One scene performs some steps on a ``Shelf``. Where its server refuses (``answers``)
             it shows what else is still done then, and what is told. ``unperformed`` names the steps of a
             closed set that no scene performs.
Invariants.  Nothing here waits. A scene compares all writes, not some of them: one that is not expected
             shows.
Called by    tests/unit/acts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, VolumeSpec
from kubewright.driver.errors import NotFound, Unimplemented
from kubewright.kube.patches import CONTESTS
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import NotFound as NotServed
from kubewright.wire.gvk import Key

T = TypeVar("T")

NOT_SERVED = NotServed("404 page not found")
"""What a proxy without a backend answers, or a server that does not serve the kind for now. It says nothing
of the object."""

TURNS = 1000
"""Turns of the event loop that a background task of a scene gets: they wait for nothing outside of it."""


@dataclass(frozen=True)
class Happened:
    """What came of a plan.

    ``outcome``  what the act answered
    ``error``    the error that ended it
    ``events``   (name of the object, reason, message, whether it warns) of each event
    ``sources``  the components in whose names events were sent; empty text: the recorder's own
    """

    outcome: object = None
    error: KubewrightError | None = None
    events: tuple[tuple[str, str, str, bool], ...] = ()
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Scene:
    """One performance.

    ``act``     sets the stage, performs, and gives the server and what happened
    ``steps``   the types of the steps that it performs
    ``writes``  every write that the server got, in order, whether it was refused or not
    ``events``  as in ``Happened``
    ``error``   the type of the error that ends it
    ``then``    says what else must hold; an assertion error if it does not
    """

    name: str
    act: Callable[[], Awaitable[tuple[Shelf, Happened]]]
    steps: tuple[type, ...]
    writes: tuple[Write, ...] = ()
    events: tuple[tuple[str, str, str, bool], ...] = ()
    error: type[KubewrightError] | None = None
    then: Callable[[Shelf, Happened], object] = lambda _shelf, _happened: None


@dataclass(frozen=True)
class Act:
    """An act and its scenes.

    ``module``  the module that performs, below kubewright: ``bootstrap.act``
    ``steps``   its closed set of steps
    ``left``    steps that no scene performs, each with the reason
    """

    module: str
    steps: object
    scenes: tuple[Scene, ...]
    left: Mapping[type, str] = field(default_factory=dict)


@dataclass
class Told:
    """A recorder of events, of each component. ``component``: the one that asked for it last."""

    events: list[tuple[str, str, str, bool]] = field(default_factory=list)
    sources: set[str] = field(default_factory=set)
    component: str = ""

    def event(
        self, about: Any, reason: str, message: str, *, warning: bool = False, component: str = ""
    ) -> None:
        self.events.append((about.metadata.name, str(reason), message, warning))
        self.sources.add(component or self.component)

    def of(self, component: str) -> "Told":
        return Told(self.events, self.sources, component)


@dataclass
class Cloud:
    """A driver whose cloud makes what it is asked for. It has the VMs of ``vms``, by provider id.

    ``asked``    the request of each creation, look, deletion, update and console, with its verb
    ``updates``  what each update was told that the VM had before
    ``in_a_pass``  whether one of them came in the pass of a controller (``kube.patches``)
    """

    vms: dict[str, Instance] = field(default_factory=dict)
    asked: list[tuple[str, MachineRequest]] = field(default_factory=list)
    updates: list[Mapping[str, Any] | None] = field(default_factory=list)
    in_a_pass: bool = False

    async def create(self, request: MachineRequest) -> Instance:
        self._note("create", request)
        made = Instance(f"sim:///here/{request.name}", request.name, request.name)
        return self.vms.setdefault(made.provider_id, made)

    async def initialize(self, request: MachineRequest) -> Instance:
        raise Unimplemented(f"VM {request.name} needs no initialization")

    async def status(self, request: MachineRequest) -> Instance:
        self._note("status", request)
        if (found := self.vms.get(f"sim:///here/{request.name}")) is None:
            raise NotFound("there is no such VM")
        return found

    async def delete(self, request: MachineRequest) -> str | None:
        self._note("delete", request)
        self.vms.pop(f"sim:///here/{request.name}", None)
        return None

    async def list(self, _request: ClassRequest) -> Sequence[Instance]:
        return tuple(self.vms.values())

    async def console(self, request: MachineRequest) -> str:
        self._note("console", request)
        return "panic"

    def hot_fields(self, _machine_class: MachineClass) -> Sequence[str]:
        return ["tags"]

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        self._note("update", request)
        self.updates.append(last_applied)

    async def volume_ids(self, _volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return ()

    def _note(self, verb: str, request: MachineRequest) -> None:
        self.asked.append((verb, request))
        self.in_a_pass = self.in_a_pass or CONTESTS.get() is not None


async def at_rest(tasks: Sized, clock: Clock) -> None:
    """Let what was begun in the background come to its end: calls about VMs, requests about pods."""
    for _ in range(TURNS):
        if not len(tasks):
            return
        await clock.sleep(0)
    raise AssertionError(f"{len(tasks)} still run")


async def happened(work: Awaitable[object], told: Told) -> Happened:
    """Perform; an error of ours is a part of what happened."""
    outcome, error = None, None
    try:
        outcome = await work
    except KubewrightError as found:
        error = found
    return Happened(outcome, error, tuple(told.events), frozenset(told.sources))


async def wrong(scene: Scene) -> list[str]:
    """Perform, and say where it differs from what the scene says."""
    shelf, found = await scene.act()
    scene.then(shelf, found)
    pairs: Iterable[tuple[str, object, object]] = (
        ("writes", tuple(shelf.writes), scene.writes),
        ("events", found.events, scene.events),
        ("error", type(found.error) if found.error is not None else None, scene.error),
    )
    return [f"{what}: {there!r}, not {wanted!r}" for what, there, wanted in pairs if there != wanted]


def unperformed(act: Act) -> list[str]:
    """The steps of which there is no scene and no reason."""
    there = {step for scene in act.scenes for step in scene.steps} | set(act.left)
    return [each.__name__ for each in closed(act.steps) if each not in there]


def closed(steps: object) -> tuple[type, ...]:
    """The types of a closed set of steps: of ``A | B``, or of one type."""
    return get_args(steps) or ((steps,) if isinstance(steps, type) else ())


@dataclass(frozen=True)
class Such:
    """Equals each value of which ``holds`` is true: for what is made at random. ``what`` names it."""

    what: str
    holds: Callable[[Any], bool]

    def __eq__(self, other: object) -> bool:
        return self.holds(other)

    def __hash__(self) -> int:
        return hash(self.what)

    def __repr__(self) -> str:
        return self.what


def laid(shelf: Shelf, kind: Kind[T], each: Any) -> T:
    """Lay an object on the shelf; as it stands there now, with its version."""
    shelf.lay(kind, each)
    return kind.from_plain(shelf.at(kind, Key(each.metadata.namespace, each.metadata.name)))


async def all_ended() -> None:
    """Let what was begun in the background come to its end, and what that begins."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.gather(*others)
