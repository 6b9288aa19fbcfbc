"""A host that runs nothing, and says of every instance that it is ready, unless a test holds it up."""

from collections.abc import Callable
from dataclasses import replace

from kubewright.controlplanes.hosting.contract import Instance, Place, Placement, Running, Workload
from kubewright.wire.gvk import Key


class DoubleHost:
    """``journal``: what was started, in order. ``sick``: versions whose instances never become ready."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, str]] = []
        self.sick: set[str] = set()
        self._applied: dict[Place, Workload] = {}
        self._running: dict[Place, Running] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def place(self, place: Place, replicas: int) -> Placement:
        hosts = tuple(f"127.1.0.{number + 1}" for number in range(replicas))
        return Placement(hosts, ("127.1.0.1", 6443))

    def problem_of(self, workload: Workload) -> str:
        return ""

    def status(self, place: Place) -> Running:
        found = self._running.get(place, Running())
        return replace(found, instances=tuple(map(self._as_it_is, found.instances)))

    async def apply(self, workload: Workload) -> None:
        place, before = workload.place, self.status(workload.place)
        self._applied[place] = workload
        there = {each.ordinal: each for each in before.instances}
        instances = [
            there.get(number) or self._start(workload, number) for number in range(workload.replicas)
        ]
        self._say(place, tuple(instances))

    async def replace(self, place: Place, ordinal: int) -> None:
        kept = [each for each in self.status(place).instances if each.ordinal != ordinal]
        found = [*kept, self._start(self._applied[place], ordinal)]
        self._say(place, tuple(sorted(found, key=lambda each: each.ordinal)))

    async def remove(self, place: Place, *, keep_data: bool) -> None:
        self._applied.pop(place, None)
        self._running.pop(place, None)
        self._tell(place)

    def listen(self, changed: Callable[[Key], None]) -> None:
        self._listeners.append(changed)

    def _start(self, workload: Workload, ordinal: int) -> Instance:
        self.journal.append((str(workload.place.component), workload.version))
        name, host = workload.place.instance(ordinal), f"127.1.0.{ordinal + 1}"
        return Instance(ordinal, name, host, "", workload.fingerprint, workload.version)

    def _as_it_is(self, instance: Instance) -> Instance:
        return replace(instance, ready=instance.version not in self.sick)

    def _say(self, place: Place, instances: tuple[Instance, ...]) -> None:
        workload = self._applied[place]
        self._running[place] = Running(instances, workload.fingerprint, workload.replicas, exists=True)
        self._tell(place)

    def _tell(self, place: Place) -> None:
        for changed in self._listeners:
            changed(place.key)
