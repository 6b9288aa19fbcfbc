"""What must be true of snapshots and restores at every step.

Theory.      Files are real, and what users of the etcd had written is known for every moment: a complete
             snapshot has a file with what was written at a moment since the snapshot was asked for.
Called by    ``rules``.
"""

from collections.abc import Callable
from hashlib import sha256

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION
from simulation.controlplanes.acts import ETCD, find, name_of
from simulation.controlplanes.copies import RESTORE, read
from simulation.controlplanes.etcd import Content
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.setup import SNAPSHOTS, SnapshotFolder
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import Happening, HostCall, ProgramStep, Step
from simulation.person import NAMESPACE_NAME

NAME = (NAMESPACE_NAME, name_of(ETCD))


class Files:
    """These rules, of one run."""

    folder: SnapshotFolder

    def __init__(self, machine: Callable[[], HostMachine]) -> None:
        self._machine = machine
        self._asked: dict[str, int] = {}
        self._contents: list[Content] = []

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.a_snapshot_is_what_it_says,
            self.nothing_runs_while_data_is_replaced,
            self.data_is_never_mixed,
            self.nothing_starts_without_its_data,
        )

    def a_snapshot_is_what_it_says(self, step: Step, past: Past) -> str:
        """The file of a complete snapshot exists, with its hash and what was there since it began."""
        del past
        now = self._machine().content(*NAME)
        if now is not None and (not self._contents or self._contents[-1] != now):
            self._contents.append(now)
        old, new = both(step, SNAPSHOTS)
        if new is None:
            return ""
        name = str(new["metadata"]["uid"])
        first = self._asked.setdefault(name, max(0, len(self._contents) - 1))
        status = new.get("status", {})
        if not status.get("ready") or (old or {}).get("status", {}).get("ready"):
            return ""
        path = self.folder.path / str(status["file"])
        if not path.exists():
            return f"snapshot {new['metadata']['name']} is complete, and its file is not there"
        if (
            sha256(path.read_bytes()).hexdigest() != status["sha256"]
            or read(path) not in self._contents[first:]
        ):
            return f"snapshot {new['metadata']['name']} is complete, and its file has another content"
        return ""

    def nothing_runs_while_data_is_replaced(self, step: Step, past: Past) -> str:
        """No component has an instance when the data of a member is replaced."""
        del past
        if not isinstance(step, HostCall) or step.verb != RESTORE:
            return ""
        runs = [name for (_, name), each in self._machine().workloads.items() if each.programs]
        return f"data is replaced, and there runs {', '.join(runs)}" if runs else ""

    def data_is_never_mixed(self, step: Step, past: Past) -> str:
        """An etcd starts with the data of one cluster: all old, or all restored."""
        del past
        found = self._machine().etcd_of(NAME)
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS or found is None:
            return ""
        there = {each.cluster for each in found[0].data.values() if each.member}
        return f"{step.workload} starts, and etcd has data of {len(there)} clusters" if len(there) > 1 else ""

    def nothing_starts_without_its_data(self, step: Step, past: Past) -> str:
        """A member whose data has vanished starts only after it was replaced, or a user has given it up."""
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS:
            return ""
        name, found = (step.namespace, step.workload), find(past.journal, ETCD) or {"metadata": {}}
        if (name, step.ordinal) not in self._machine().vanished:
            return ""
        annotations = found["metadata"].get("annotations") or {}
        given_up = annotations.get(LOST_DATA_ANNOTATION, "").split(",")
        told = f"{step.workload}-{step.ordinal}"
        hosted = self._machine().workloads.get(name)
        disk = hosted.data.get(step.ordinal) if hosted is not None else None
        replaced = disk is not None and bool(disk.member)
        return "" if replaced or told in given_up else f"{told} starts, and its data has vanished"
