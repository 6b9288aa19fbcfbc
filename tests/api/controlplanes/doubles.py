"""A host that runs nothing, and says of every instance that it is ready, unless a test holds it up."""

from collections.abc import Callable
from dataclasses import replace

from kubewright.controlplanes.hosting.contract import (
    Instance,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
)
from kubewright.wire.gvk import Key


class DoubleHost:
    """``journal``: what was started, in order. ``sick``: versions whose instances never become ready."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, str]] = []
        self.sick: set[str] = set()
        self._applied: dict[WorkloadIdentity, Workload] = {}
        self._running: dict[WorkloadIdentity, Running] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        hosts = tuple(f"127.1.0.{number + 1}" for number in range(replicas))
        return WorkloadAddresses(hosts, ("127.1.0.1", 6443))

    def problem_of(self, workload: Workload) -> str:
        return ""

    def status(self, identity: WorkloadIdentity) -> Running:
        found = self._running.get(identity, Running())
        return replace(found, instances=tuple(map(self._as_it_is, found.instances)))

    async def apply(self, workload: Workload) -> None:
        identity, before = workload.identity, self.status(workload.identity)
        self._applied[identity] = workload
        there = {each.ordinal: each for each in before.instances}
        instances = [
            there.get(number) or self._start(workload, number) for number in range(workload.replicas)
        ]
        self._say(identity, tuple(instances))

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        kept = [each for each in self.status(identity).instances if each.ordinal != ordinal]
        found = [*kept, self._start(self._applied[identity], ordinal)]
        self._say(identity, tuple(sorted(found, key=lambda each: each.ordinal)))

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        self._applied.pop(identity, None)
        self._running.pop(identity, None)
        self._tell(identity)

    def listen(self, changed: Callable[[Key], None]) -> None:
        self._listeners.append(changed)

    def _start(self, workload: Workload, ordinal: int) -> Instance:
        self.journal.append((str(workload.identity.component), workload.version))
        name, host = workload.identity.instance(ordinal), f"127.1.0.{ordinal + 1}"
        return Instance(ordinal, name, host, "", workload.fingerprint, workload.version)

    def _as_it_is(self, instance: Instance) -> Instance:
        return replace(instance, ready=instance.version not in self.sick)

    def _say(self, identity: WorkloadIdentity, instances: tuple[Instance, ...]) -> None:
        workload = self._applied[identity]
        self._running[identity] = Running(instances, workload.fingerprint, workload.replicas, exists=True)
        self._tell(identity)

    def _tell(self, identity: WorkloadIdentity) -> None:
        for changed in self._listeners:
            changed(identity.key)
