"""Runs components as processes of this machine: implements ``Hosting`` over a supervisor.

Theory.      The state of each workload (``kept``) is written to a file of its own and then given to the
             supervisor. So after a restart of this program everything goes on as before, even before a
             controller runs: processes that still run are found and left alone. The folder of an instance is
             deleted after its process has ended.
             An instance runs with what its process was started with, which may be something older than what
             it is to run with; the settings of the process say what that was. Why a program ended is told by
             the end of its output, which tells more than its exit code: the last line, but of a Go program
             that panics the line before what it writes then.
Invariants.  A lock gives the folder to one program. The file is written before a process starts or ends. One
             change of a workload at a time. The content of Secrets is only in files of mode 0600. An instance
             is ready only if it runs with exactly what is wanted of it. At most ``LONGEST`` characters of one
             line of output are in a message.
Called by    ``compose``; the controllers of components, as ``Hosting``.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import structlog

from kubewright.api.controlplane.names import CLIENT_PORTS, Component
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.controlplanes.hosting.contract import (
    Instance,
    Replaced,
    Replacement,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
)
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.hosting.processes import kept as changes
from kubewright.controlplanes.hosting.processes import restoring
from kubewright.controlplanes.hosting.processes.addresses import (
    MOST_INSTANCES,
    Addresses,
    balanced,
    balancer_of,
    problem_of_balancing,
    read_range,
)
from kubewright.controlplanes.hosting.processes.allowed import (
    PROGRAM_OF,
    home_of,
    problem_of_command,
    problems,
    runs_commands,
    unsafe,
    unsupported,
    variables_of,
)
from kubewright.controlplanes.hosting.processes.binaries import Binaries, Missing
from kubewright.controlplanes.hosting.processes.instances import (
    BALANCER,
    Name,
    ProgramSettings,
    Site,
    command_of,
    instance_of,
    name_of,
    program_name,
    program_of,
    with_allowed_variables,
)
from kubewright.controlplanes.hosting.processes.kept import Kept
from kubewright.controlplanes.hosting.processes.options import Settings, Users, mixed
from kubewright.controlplanes.hosting.processes.store import PROGRAMS, NotWritten, Store, locked
from kubewright.processes import record
from kubewright.processes.linux import SUPPORTED
from kubewright.processes.program import Phase, Program, Status
from kubewright.processes.record import Owner
from kubewright.processes.supervisor import Supervisor
from kubewright.wire.gvk import Key

GRACE_WITHOUT_DATA = 10.0
"""Seconds to end for a program whose data is deleted after that. An API server whose etcd has ended would
otherwise take its whole grace period."""
LOCAL = "127.0.0.1"
"""The address of a program that is only judged."""
JUDGED = (0, 0)
"""Its user, where each control plane has one of its own: none is given for it."""
MOST_TOLD = 5

log = structlog.get_logger("kubewright.controlplanes")


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


LONGEST = 300
PANIC = "panic: "
REASONS = (PANIC, "fatal error:", "flag provided but not defined:", "Error: ")
"""How a line with the reason begins, even if a stack trace or a usage text follows."""
_HEADER = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ [\w.-]+:\d+\] ")
"""The header of klog before a message: level, date, time, process, file and line."""


def reason(lines: Sequence[str]) -> str:
    """The reason in one line; the last line if none looks like one; empty if there is no output."""
    told = [line.strip() for line in lines if line.strip()]
    if not told:
        return ""
    found = (number for number in reversed(range(len(told))) if told[number].startswith(REASONS))
    chosen = next(found, len(told) - 1)
    before, said = _text(told[chosen - 1]) if chosen else "", _text(told[chosen])
    logged = before.startswith(f"{said.removeprefix(PANIC)}: ")
    return (before if logged else said)[:LONGEST]


def _text(line: str) -> str:
    """The message of a line, without what a log has before it."""
    if line.startswith("{"):
        try:
            found = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError:
            return line
        return ": ".join(str(found[name]) for name in ("msg", "error") if name in found) or line
    return _HEADER.sub("", line, count=1)


class StillRemoved(KubewrightError):
    """A workload was applied while the one of the same name is still being removed; trying again helps."""


class ProcessHosting:
    """``async with ProcessHosting(settings, clock) as hosting``: processes outlive it.

    Only if their folder was deleted in the meantime, they are killed at the end.

    Raises:
        InvalidInput: another program has the folder, or a file in it is damaged.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._network = read_range(settings.addresses)
        self._clock = clock
        self._store = Store(settings.folder)
        self._binaries = Binaries(settings.where)
        self._supervisor = Supervisor(settings.folder / PROGRAMS, clock, starts=settings.starts)
        self._supervisor.listen(self._program_changed)
        self._programs = str(settings.folder / PROGRAMS)
        self._addresses: Addresses
        self._users: Users
        self._kept: dict[Name, Kept] = {}
        self._present: defaultdict[Name, set[int]] = defaultdict(set)
        self._last: dict[str, Status] = {}
        self._locks: defaultdict[Name, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._listeners: list[Callable[[Key], None]] = []
        self._deletions: set[asyncio.Task[None]] = set()
        self._open = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(locked(self._settings.folder).close)
            salt = f"{self._clock.random.getrandbits(64):016x}"
            self._addresses = Addresses(self._settings.folder, self._network, salt)
            self._users = Users(self._settings.folder, self._settings.uids, salt)
            self._load()
            stop = asyncio.Event()
            task = asyncio.create_task(self._supervisor.run(stop), name="supervisor of control planes")
            stack.push_async_callback(_finished, task, stop)
            stack.callback(self._kill_if_folder_is_gone)
            stack.push_async_callback(self._cancel_deletions)
            self._open = True
            self._stack = stack.pop_all()
        for name in self._kept:
            self._delete_in_background(name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # ------------------------------------------------------------------ look
    def addresses(self, identity: WorkloadIdentity, replicas: int) -> WorkloadAddresses:
        """See ``Hosting``."""
        port = CLIENT_PORTS[identity.component]
        if balanced(identity.component):
            return WorkloadAddresses(endpoint=(self._addresses.get(identity, BALANCER), port), surges=True)
        hosts = self._addresses.reserve(identity, range(max(replicas, 1)))
        return WorkloadAddresses(tuple(hosts[:replicas]), endpoint=(hosts[0], port))

    def problem_of(self, workload: Workload) -> str:
        """See ``Hosting``. A program whose version is not known yet is no problem: ``apply`` asks it."""
        if not SUPPORTED:
            return "only Linux can run components as processes"
        if told := problem_of_balancing(workload.identity.component, workload.replicas):
            return told
        if names := unsupported(workload.rendered.workload):
            return f"a process of this machine cannot have {', '.join(names)}"
        if told := next(unsafe(workload.rendered.workload), "") or self._mixed(workload.identity):
            return told
        try:
            if told := self._forbidden(workload):
                return told
        except InvalidInput as error:
            return str(error)
        wanted = PROGRAM_OF[workload.identity.component]
        found = self._binaries.known(command_of(workload), workload.version, wanted)
        return found.message if isinstance(found, Missing) else ""

    def _mixed(self, identity: WorkloadIdentity) -> str:
        """Why this workload cannot run beside the others as one user; empty if it can."""
        if self._settings.uids is not None or self._settings.shared:
            return ""
        return mixed(identity.namespace, {*(name[0] for name in self._kept), *self._store.namespaces()})

    def _user_of(self, identity: WorkloadIdentity) -> Owner | None:
        """Who the programs of a workload run as; None: as this program.

        Raises:
            InvalidInput: there is no number left for its control plane, or it cannot be written down.
        """
        return self._users.of(identity) or self._settings.user

    def _forbidden(self, workload: Workload) -> str:
        """Why no program may do what this workload asks for, a sentence; empty: it may.

        Raises:
            InvalidInput: a Secret, a ConfigMap or a key that a volume names is not there.
        """
        if told := problem_of_command(workload):
            return told
        user = self._settings.user if self._settings.uids is None else JUDGED
        program = program_of(workload, 0, Site("", LOCAL, self._programs, user))
        home = home_of(program, self._programs)
        return "; ".join(islice((*variables_of(workload), *problems(program, home)), MOST_TOLD))

    def status(self, identity: WorkloadIdentity) -> Running:
        """See ``Hosting``."""
        kept = self._kept.get(name_of(identity))
        if kept is None:
            is_etcd = identity.component is Component.ETCD
            data = self._store.with_data(identity) if is_etcd else None
            return Running(kept=self._store.members(identity), data=data)
        ordinals = sorted({*kept.programs, *self._present[name_of(identity)]} - {BALANCER})
        instances = [found for each in ordinals if (found := self._instance(kept, each)) is not None]
        variables = kept.latest[0].environment if kept.latest else {}
        return Running(
            tuple(instances),
            kept.fingerprint,
            len(kept.latest),
            exists=True,
            variables=variables,
            data=self._store.data_of(kept),
            closed=closed(self._view(kept, BALANCER)),
        )

    def _instance(self, kept: Kept, ordinal: int) -> Instance | None:
        host = self._addresses.known(kept.identity, ordinal)
        return instance_seen(kept.identity, ordinal, host, self._view(kept, ordinal))

    def _view(self, kept: Kept, ordinal: int) -> View:
        name = program_name(name_of(kept.identity), ordinal)
        status, folder = self._supervisor.status(name), self._supervisor.folder(name)
        return View(kept.programs.get(ordinal), status, folder)

    # ------------------------------------------------------------------ act
    async def apply(self, workload: Workload) -> None:
        """See ``Hosting``."""
        name, identity = name_of(workload.identity), workload.identity
        async with self._locks[name]:
            kept = self._kept.get(name) or Kept(identity=identity)
            if kept.removing:
                raise StillRemoved(f"{identity.workload} is still being removed")
            if told := self.problem_of(workload):
                raise InvalidInput(told)
            wanted = PROGRAM_OF[identity.component]
            found = await self._binaries.find(command_of(workload), workload.version, wanted)
            if isinstance(found, Missing):
                raise InvalidInput(found.message)
            latest = self._programs_of(workload, str(found))
            balancer = self._balancer_of(identity, latest)
            await self._keep(changes.applied(kept, identity, workload.fingerprint, latest, balancer))
        self._delete_in_background(name)

    def _programs_of(self, workload: Workload, binary: str) -> list[Program]:
        user = self._user_of(workload.identity)
        # Its endpoint has an address before its instances have.
        self.addresses(workload.identity, workload.replicas)
        hosts = self._addresses.reserve(workload.identity, range(workload.replicas))
        sites = [Site(binary, host, self._programs, user) for host in hosts]
        return [program_of(workload, ordinal, site) for ordinal, site in enumerate(sites)]

    def _balancer_of(self, identity: WorkloadIdentity, latest: list[Program]) -> Program | None:
        """The balancer before these programs; None: they need none."""
        if not latest or not balanced(identity.component):
            return None
        hosts = self._addresses.reserve(identity, range(MOST_INSTANCES + 1))
        endpoint = self._addresses.get(identity, BALANCER), CLIENT_PORTS[identity.component]
        return balancer_of(identity, endpoint, hosts, latest[0], self._user_of(identity))

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        """See ``Hosting``."""
        name = name_of(identity)
        async with self._locks[name]:
            if (kept := self._kept.get(name)) is not None:
                await self._keep(changes.replaced(kept, ordinal))

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        """See ``Hosting``."""
        name = name_of(identity)
        async with self._locks[name]:
            present = await asyncio.to_thread(self._store.ordinals, identity)
            if name not in self._kept and (keep_data or not present):
                if not keep_data:
                    self._free(identity)
                return
            kept = self._kept.get(name) or Kept(identity=identity)
            await self._keep(changes.removed(kept, present, keep_data=keep_data))
        self._delete_in_background(name)

    def listen(self, changed: Callable[[Key], None]) -> None:
        """See ``Hosting``."""
        self._listeners.append(changed)

    def lacks_to_replace(self) -> str:
        """See ``ReplacesData``."""
        return restoring.needs(self._binaries)

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        """See ``ReplacesData``."""
        name, folder = name_of(identity), self._settings.folder / PROGRAMS
        async with self._locks[name]:
            kept = self._kept.get(name)
            if self._present[name] or (kept is not None and (kept.programs or kept.removing)):
                raise NotReplaced(f"{identity.workload} still runs")
            hosts = {ordinal: self._addresses.get(identity, ordinal) for ordinal in range(by.members)}
            members = restoring.members_of(identity, hosts, folder)
            former = await restoring.replace(self._binaries, members, by, self._user_of(identity))
        return Replaced("" if former is None else str(former.relative_to(self._settings.folder.parent)))

    async def _keep(self, kept: Kept) -> None:
        """Write the new state of a workload and give it to the supervisor. The caller holds its lock."""
        name = name_of(kept.identity)
        before = self._kept.get(name)
        if kept == before:
            return
        await asyncio.to_thread(self._store.write, kept)
        self._kept[name] = kept
        self._want(kept)
        asleep = set() if before is None else before.programs.keys() - kept.programs.keys()
        for ordinal in asleep - set(kept.discarded):
            self._supervisor.drop(program_name(name, ordinal))
        self._changed(kept.identity)

    def _want(self, kept: Kept) -> None:
        for program in kept.programs.values():
            self._supervisor.want(program)
        lost = kept.removing and not kept.keep_data
        for ordinal in kept.discarded:
            ending = program_name(name_of(kept.identity), ordinal)
            self._supervisor.drop(ending, grace=GRACE_WITHOUT_DATA if lost else None)

    # ------------------------------------------------------------------ restart, deletion
    def _load(self) -> None:
        """Read the state of all workloads, and end other processes that were started from this folder."""
        wanted = set()
        for kept in map(self._judged, self._store.all()):
            self._kept[name_of(kept.identity)] = kept
            self._want(kept)
            wanted |= {program.name for program in kept.programs.values()}
        for program in set(self._supervisor.recorded()) - wanted:
            name, ordinal = instance_of(program)
            self._present[name].add(ordinal)
            if name not in self._kept or ordinal not in self._kept[name].discarded:
                self._supervisor.drop(program)

    def _judged(self, kept: Kept) -> Kept:
        """The state that was written, without programs that would be refused today.

        An earlier version may have accepted them, or another program has written them into our files.
        """
        usual = PROGRAM_OF[kept.identity.component]
        running = [program for ordinal, program in kept.programs.items() if ordinal != BALANCER]
        for program in (*kept.latest, *running):
            told = next(problems(program, home_of(program, self._programs)), "")
            if told or runs_commands(program) or not self._binaries.admits(Path(program.argv[0]), usual):
                log.warning("a program that was kept is refused", program=program.name, because=told)
                return changes.cleared(kept)
        return changes.with_programs(kept, with_allowed_variables)

    def _delete_in_background(self, name: Name) -> None:
        """Start a task that deletes what is due, if anything is."""
        kept = self._kept.get(name)
        if self._open and kept is not None and (kept.discarded or kept.removing):
            task = asyncio.create_task(self._delete_due(name), name=f"deletion of {'/'.join(name)}")
            self._deletions.add(task)
            task.add_done_callback(self._deletions.discard)

    async def _delete_due(self, name: Name) -> None:
        """Delete folders of discarded instances that have ended; forget a removed workload without any."""
        async with self._locks[name]:
            if (kept := self._kept.get(name)) is None:
                return
            ended = [
                each for each in kept.discarded if self._supervisor.status(program_name(name, each)) is None
            ]
            try:
                for each in ended:
                    await asyncio.to_thread(self._store.delete, kept.identity, each, keep_data=kept.keep_data)
                left = changes.without(kept, ended)
                if left.discarded or not left.removing:
                    await self._keep(left)
                else:
                    await self._forget(left)
            except (InvalidInput, NotWritten) as error:  # the next event, or the controller, tries again
                log.warning("could not delete what was left of a workload", workload=name, error=str(error))

    async def _forget(self, kept: Kept) -> None:
        await asyncio.to_thread(self._store.forget, kept.identity)
        if not kept.keep_data:
            self._free(kept.identity)
        del self._kept[name_of(kept.identity)]
        self._changed(kept.identity)

    def _free(self, identity: WorkloadIdentity) -> None:
        """Free the addresses of a workload, and the user of its control plane if this was the last of it."""
        self._addresses.free(identity)
        own, plane = name_of(identity), (identity.namespace, identity.cluster)
        others = any(name[:2] == plane and name != own for name in self._kept)
        if not others and not self._store.has_plane(identity):
            self._users.free(identity)

    def _kill_if_folder_is_gone(self) -> None:
        """Kill the processes if their folder is gone: no later host could find them."""
        if any(self._present.values()) and not self._settings.folder.exists():
            log.warning("the folder of components is gone: ending them", folder=str(self._settings.folder))
            self._supervisor.kill()

    async def _cancel_deletions(self) -> None:
        self._open = False
        tasks = list(self._deletions)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------ events
    def _program_changed(self, program: str) -> None:
        """Called by the supervisor: call the listeners if more than memory or CPU time has changed."""
        name, ordinal = instance_of(program)
        before, status = self._last.get(program), self._supervisor.status(program)
        if status is None:
            self._present[name].discard(ordinal)
            self._last.pop(program, None)
            self._delete_in_background(name)
        else:
            self._present[name].add(ordinal)
            status = self._last[program] = replace(status, memory=0, cpu=0.0)
        if status != before and (kept := self._kept.get(name)) is not None:
            self._changed(kept.identity)

    def _changed(self, identity: WorkloadIdentity) -> None:
        for listener in self._listeners:
            listener(identity.key)


async def _finished(task: asyncio.Task[None], stop: asyncio.Event) -> None:
    stop.set()
    await task
