"""From the program of an instance, its process and its output to an ``Instance``.

Theory.      An instance runs with what its process was started with, which may be something older than what
             it is to run with. The settings of the process say what that was. For a program that ended, the
             end of its output tells more than its exit code.
Invariants.  An instance is ready only if it runs with exactly what is wanted of it.
Called by    ``host``.
"""

from dataclasses import dataclass
from pathlib import Path

from kubewright.controlplanes.hosting.contract import Instance, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.instances import ProgramSettings
from kubewright.controlplanes.hosting.processes.output import reason
from kubewright.processes import record
from kubewright.processes.program import Phase, Program, Status


@dataclass(frozen=True, slots=True)
class View:
    """A program and its process.

    ``wanted``  None: nothing is to run
    ``status``  what the supervisor says; None: nothing yet
    ``folder``  where the output is
    """

    wanted: Program | None
    status: Status | None
    folder: Path


def instance_seen(identity: WorkloadIdentity, ordinal: int, host: str, view: View) -> Instance | None:
    """One instance with the address ``host``; None: there is none."""
    wanted, status = view.wanted, view.status
    if status is None:
        if wanted is None:
            return None
        status = Status(wanted.name, Phase.WAITING, message="it is about to be started")
    settings = status.fingerprint if status.pid else wanted.settings if wanted else ""
    started = ProgramSettings.read(settings)
    fits = wanted is not None and wanted.settings == settings
    return Instance(
        ordinal,
        identity.instance(ordinal),
        host,
        fingerprint=started.fingerprint,
        version=started.version,
        ready=status.ready and fits,
        ending=status.pid != 0 and not fits,
        since=status.since,
        restarts=status.restarts,
        message=_message(status, view.folder),
        memory=status.memory,
        cpu=status.cpu,
    )


def closed(balancer: View) -> str:
    """Why clients cannot use the endpoint, a clause; empty: they can, or there is no balancer before it."""
    status = balancer.status
    if balancer.wanted is None or (status is not None and status.ready):
        return ""
    said = "" if status is None else _message(status, balancer.folder)
    return f"the balancer does not listen yet{f': {said}' if said else ''}"


def _message(status: Status, folder: Path) -> str:
    """What is wrong; for a program that ended, with the reason from its output."""
    if status.phase is not Phase.BACK_OFF:
        return status.message
    said = reason(record.last_lines(folder))
    return f"{status.message}; the last that it wrote: {said}" if said else status.message
