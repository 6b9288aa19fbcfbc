"""What must be true of programs: who runs, in which order, with which data, and what objects say of it.

Theory.      What the machine runs, and the members of its etcd, are known at every moment, so a rule
             compares what objects say with what is, and judges each call of a manager by what it has done. A
             program that starts finds what it needs; one that ends does so while what it needs is there.
             Only what a manager asks for counts: a program that died is started again by the machine. A
             manager is not blamed for what it cannot have seen (``planes``).
Called by    ``table``.
"""

from hashlib import sha256
from typing import TYPE_CHECKING

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION, LOST_DATA_ANNOTATION, Component
from kubewright.controlplanes.templates.choice import minor
from kubewright.controlplanes.wiring import templates
from simulation.controlplanes.copies import SnapshotFolder, read
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, MANAGER, ORDER, PLANE, SERVER, find, name_of_part, ready
from simulation.controlplanes.programs import Program
from simulation.journal import APPLY, NAMESPACE_NAME, REPLACE, STARTS, WORKLOADS, Write
from simulation.rules.facts import deleting, notes_of, status_of
from simulation.rules.past import Past
from simulation.rules.planes import ASLEEP, DELETING, ELSEWHERE, ETCD_NAME, PAUSED, PlanePast, silence

if TYPE_CHECKING:
    from simulation.rules import Rule

NEEDS = {SERVER: ETCD, MANAGER: SERVER}
"""What each component needs before it starts."""
REPLACED_SECONDS = 5.0
"""For so long an instance may end that was asked to be replaced before: it starts after that."""
Release = tuple[int, ...]


def _instances(which: Component | str, past: Past) -> list[Program]:
    return past.part(HostMachine).instances(NAMESPACE_NAME, name_of_part(which))


def _runs(past: Past) -> str:
    return ", ".join(name for (_, name), each in past.part(HostMachine).workloads.items() if each.programs)


def _needing(write: Write) -> Component | None:
    """The component of this name, if it needs another."""
    return next((each for each in NEEDS if name_of_part(each) == write.name), None)


# ---------------------------------------------------------------- what is said


def silent_though_ready(_write: Write, past: Past, row: "Rule") -> str:
    memory = past.memory(PlanePast)
    for which in ORDER:
        if not ready(find(past.journal, which)) or memory.for_long(which, ELSEWHERE, past):
            continue
        last = memory.answered.get(which)
        if last is None:
            return f"{name_of_part(which)} is ready and has never answered"
        silent = silence(last, past)
        if silent > row.bound and not memory.for_long(PLANE, PAUSED, past):
            return f"{name_of_part(which)} is ready and has not answered for {silent:.1f} s"
    return ""


def awake(write: Write, past: Past, row: "Rule") -> str:
    """What ran ends soon."""
    memory = past.memory(PlanePast)
    if not memory.for_long(PLANE, ASLEEP, past):
        return ""
    asked = write.kind == WORKLOADS
    begins = write.verb in (STARTS, REPLACE) or (write.verb == APPLY and write.number > 0)
    known = asked or memory.waits(PLANE, ASLEEP, past) > REPLACED_SECONDS
    if begins and known:
        return f"{write.name} is started, and its control plane sleeps"
    elsewhere = any(memory.for_long(each, ELSEWHERE, past) for each in Component)
    if memory.for_long(PLANE, PAUSED, past) or elsewhere:
        return ""
    late, runs = memory.waits(PLANE, ASLEEP, past, calm=True) > row.bound, _runs(past)
    return f"{runs} runs, and its control plane sleeps" if late and runs else ""


# ---------------------------------------------------------------- orders


def start_without_need(write: Write, past: Past, row: "Rule") -> str:
    which = _needing(write)
    needed = NEEDS[which] if which is not None else None
    if needed is None or find(past.journal, needed) is None:
        return ""
    last = past.memory(PlanePast).answered.get(needed)
    if last is None:
        return f"{write.name} starts, and {name_of_part(needed)} has never answered"
    return (
        f"{write.name} starts, and {name_of_part(needed)} is silent"
        if silence(last, past) > row.bound
        else ""
    )


def end_of_needed(write: Write, past: Past, row: "Rule") -> str:
    """An etcd that is deleted alone goes with its data only when no API server runs."""
    memory = past.memory(PlanePast)
    for component, needed in NEEDS.items():
        if name_of_part(needed) != write.name:
            continue
        goes = any(memory.for_long(each, DELETING, past) for each in (component, PLANE))
        waited = [memory.waits(needed, DELETING, past)]
        if memory.waits(component, DELETING, past):
            waited.append(memory.waits(component, DELETING, past))
        runs = bool(_instances(component, past))
        if runs and goes and min(waited) <= row.bound:
            return f"{write.name} is removed while {name_of_part(component)} runs, which goes too"
        if runs and needed is ETCD and _is_deleted_alone(past):
            return f"{write.name} is removed while {name_of_part(component)} uses its data"
    return ""


def _is_deleted_alone(past: Past) -> bool:
    """Whether an etcd is deleted, with its data, of a control plane of which no other part is."""
    others = [find(past.journal, each) for each in (PLANE, SERVER)]
    stays = all(each is not None and not deleting(each) for each in others)
    notes = notes_of(find(past.journal, ETCD))
    return stays and KEEP_DATA_ANNOTATION not in notes and MANAGED_BY_ANNOTATION not in notes


def two_replaced(write: Write, past: Past, row: "Rule") -> str:
    machine = past.part(HostMachine)
    found = machine.instances(NAMESPACE_NAME, write.name)
    asked = next((each for each in found if each.ordinal == write.number), None)
    if asked is None or not machine.serves(asked):
        return ""
    ending = [each.ordinal for each in found if each.ending and each is not asked]
    calm = silence(0.0, past) > row.bound
    return f"{write.name} {write.number} is replaced, and so are {ending}" if ending and calm else ""


def newer_than_needed(write: Write, past: Past, _row: "Rule") -> str:
    """What it needs follows the control plane's version."""
    which = _needing(write)
    spec = (find(past.journal, PLANE) or {}).get("spec", {})
    if which is None or not spec.get("version"):
        return ""
    one = _instances(which, past)[-1].workload.version
    follows = which is MANAGER or "version" not in (find(past.journal, SERVER) or {}).get("spec", {})
    wanted = _release(one) if which is MANAGER else _etcd_of(one) if follows else ()
    needed = (each.workload.version for each in _instances(NEEDS[which], past))
    old = [version for version in needed if _release(version) < wanted]
    return f"{write.name} starts with {one}, and {name_of_part(NEEDS[which])} has {old}" if old else ""


def _etcd_of(version: str) -> Release:
    """The release of etcd that belongs to a version of Kubernetes."""
    entries = templates().channels[minor(version)]
    return next(_release(each.version) for each in entries if each.package == ETCD)


def _release(version: str) -> Release:
    return tuple(map(int, version.removeprefix("v").split(".")))


def lacks_service(write: Write, past: Past, _row: "Rule") -> str:
    machine = past.part(HostMachine)
    hosted = machine.workloads.get((NAMESPACE_NAME, write.name))
    lacks = hosted is not None and machine.services.lacks(hosted.identity)
    return f"{write.name} starts, and has no Service" if lacks else ""


# ---------------------------------------------------------------- members of an etcd


def second_change(write: Write, past: Past, _row: "Rule") -> str:
    found, before = past.part(HostMachine).etcd_of(ETCD_NAME), past.memory(PlanePast).learners
    now = len(found[1].learners) if found is not None else 0
    wrong = found is not None and before and now >= before
    return f"{write.verb} {write.name}, which had {before} learners and has {now}" if wrong else ""


def lost_majority(write: Write, past: Past, _row: "Rule") -> str:
    """Unless all is to end, or there is one member."""
    found, memory = past.part(HostMachine).etcd_of(ETCD_NAME), past.memory(PlanePast)
    if write.name != ETCD_NAME[1] or found is None or not memory.had_majority:
        return ""
    hosted, etcd = found
    alone = len(etcd.voters) == 1 and write.verb == REPLACE
    if not hosted.wanted or memory.has_majority(hosted, etcd, past) or alone:
        return ""
    return f"{write.verb} of {write.name} {write.number} leaves no majority"


def lost_data(write: Write, past: Past, _row: "Rule") -> str:
    """That of one member goes also after it was removed."""
    if write.name != ETCD_NAME[1]:
        return ""
    found = find(past.journal, ETCD)
    if found is not None and deleting(found):
        return (
            "etcd's data is deleted, which was to be kept" if KEEP_DATA_ANNOTATION in notes_of(found) else ""
        )
    machine = past.part(HostMachine)
    there, removed = machine.etcd_of(ETCD_NAME), False
    if there is not None:
        hosted, etcd = there
        removed = bool(hosted.wanted) and etcd.of(machine.address(hosted.identity, write.number)) is None
    return "" if removed else "etcd's data is deleted, and the NestedEtcd is not"


# ---------------------------------------------------------------- files and data


def other_file(write: Write, past: Past, _row: "Rule") -> str:
    """What users of the etcd had written is known for every moment: the file has what was there at one since
    the snapshot was asked for."""
    status = status_of(write.after)
    if not status.get("ready") or status_of(write.before).get("ready"):
        return ""
    memory, path = past.memory(PlanePast), past.part(SnapshotFolder).path / str(status["file"])
    if not path.exists():
        return f"snapshot {write.name} is complete, and its file is not there"
    since = memory.contents[memory.asked[str(write.after["metadata"]["uid"])] :]
    same = sha256(path.read_bytes()).hexdigest() == status["sha256"] and read(path) in since
    return "" if same else f"snapshot {write.name} is complete, and its file has another content"


def runs_meanwhile(_write: Write, past: Past, _row: "Rule") -> str:
    runs = _runs(past)
    return f"data is replaced, and there runs {runs}" if runs else ""


def mixed_data(write: Write, past: Past, _row: "Rule") -> str:
    """All old, or all restored."""
    found = past.part(HostMachine).etcd_of(ETCD_NAME)
    there = {each.cluster for each in found[0].data.values() if each.member} if found is not None else set()
    return f"{write.name} starts, and etcd has data of {len(there)} clusters" if len(there) > 1 else ""


def vanished_data(write: Write, past: Past, _row: "Rule") -> str:
    """It was replaced, or a user has given it up."""
    machine, name = past.part(HostMachine), (NAMESPACE_NAME, write.name)
    if (name, write.number) not in machine.vanished:
        return ""
    given_up = notes_of(find(past.journal, ETCD)).get(LOST_DATA_ANNOTATION, "").split(",")
    told = f"{write.name}-{write.number}"
    hosted = machine.workloads.get(name)
    disk = hosted.data.get(write.number) if hosted is not None else None
    replaced = disk is not None and bool(disk.member)
    return "" if replaced or told in given_up else f"{told} starts, and its data has vanished"
