"""The state of a workload that the process host keeps, and how it changes. Pure.

Theory.      An instance goes on with the program that it was given until it is replaced, whatever was applied
             since. So the state has both: ``latest``, what was applied last, and ``programs``, what each
             instance runs with. Replacing an instance gives it its latest program, with a new number. An
             instance that has to go is discarded: after its process has ended its folder is deleted, and only
             then may another instance have its name.
Invariants.  A discarded ordinal has no program. A workload that is being removed gets no programs.
Called by    ``host``, which writes each value to a file before it acts on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import Struct
from msgspec.structs import replace as changed

from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.instances import BALANCER, ProgramSettings
from kubewright.processes.program import Program


class Kept(Struct, frozen=True, kw_only=True, rename={"identity": "place"}):
    """The state of a workload. In its file the identity is called ``place``, as in those of earlier versions.

    ``latest``     the program of each instance, by ordinal, as it was applied last
    ``balancer``   the program that balances connections over them; None: there is none
    ``programs``   the program with which each instance runs, by ordinal; that of the balancer too
    ``discarded``  ordinals whose folders are deleted when their processes have ended
    ``removing``   whether all of it is being removed; with ``keep_data`` its data stays
    """

    identity: WorkloadIdentity
    fingerprint: str = ""
    latest: tuple[Program, ...] = ()
    balancer: Program | None = None
    programs: dict[int, Program] = {}
    discarded: tuple[int, ...] = ()
    removing: bool = False
    keep_data: bool = False


def applied(
    kept: Kept,
    identity: WorkloadIdentity,
    fingerprint: str,
    latest: Sequence[Program],
    balancer: Program | None = None,
) -> Kept:
    """The state after ``apply``. With 0 instances, all data stays."""
    gone = [ordinal for ordinal in kept.programs if ordinal >= len(latest)] if latest else []
    asked = changed(
        kept,
        identity=identity,
        fingerprint=fingerprint,
        latest=tuple(latest),
        balancer=balancer,
        discarded=tuple(sorted({*kept.discarded, *gone})),
    )
    return filled(asked)


def filled(kept: Kept) -> Kept:
    """The state with a program for each wanted instance that is not discarded, and for the balancer."""
    if kept.removing:
        return changed(kept, programs={})
    programs = {}
    for ordinal, wanted in enumerate(kept.latest):
        if ordinal in kept.discarded:
            continue
        present = kept.programs.get(ordinal)
        programs[ordinal] = wanted if present is None else _settled(present, wanted)
    if kept.balancer is not None and programs:
        programs[BALANCER] = kept.balancer
    return changed(kept, programs=programs)


def replaced(kept: Kept, ordinal: int) -> Kept:
    """The state after ``replace``: one instance gets its latest program, with a new number."""
    if ordinal not in kept.programs:
        return kept
    number = ProgramSettings.read(kept.programs[ordinal].settings).number + 1
    program = numbered(kept.latest[ordinal], number)
    return changed(kept, programs={**kept.programs, ordinal: program})


def removed(kept: Kept, present: Sequence[int], *, keep_data: bool) -> Kept:
    """The state after ``remove``. ``present``: the ordinals that have a folder."""
    gone = tuple(sorted({*kept.discarded, *kept.programs, *present}))
    return changed(kept, programs={}, discarded=gone, removing=True, keep_data=keep_data)


def without(kept: Kept, deleted: Sequence[int]) -> Kept:
    """The state after the folders of these ordinals were deleted."""
    left = tuple(each for each in kept.discarded if each not in deleted)
    return filled(changed(kept, discarded=left))


def cleared(kept: Kept) -> Kept:
    """The state without any program, so that all of them end, and with their data."""
    return changed(kept, fingerprint="", latest=(), balancer=None, programs={})


def with_programs(kept: Kept, change: Callable[[Program], Program]) -> Kept:
    """The state with this change of each program but the balancer."""
    programs = {
        ordinal: program if ordinal == BALANCER else change(program)
        for ordinal, program in kept.programs.items()
    }
    return changed(kept, latest=tuple(map(change, kept.latest)), programs=programs)


def numbered(program: Program, number: int) -> Program:
    """The program with this number of replacements."""
    return replace(program, settings=str(ProgramSettings.read(program.settings)._replace(number=number)))


def _settled(present: Program, wanted: Program) -> Program:
    """The program of an instance that runs: the wanted one if the fingerprint is the same, else its own."""
    before = ProgramSettings.read(present.settings)
    same = before.fingerprint == ProgramSettings.read(wanted.settings).fingerprint
    return numbered(wanted, before.number) if same else present
