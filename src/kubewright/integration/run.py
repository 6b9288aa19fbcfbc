"""The whole test: set-up, the cases in order, the clean-up, and a report of all of it.

Theory.      Before each case the manager must run, and all nodes must be Ready, for as long as any wait may
             take. A case that fails does not end the test: the others are tried, and skip what they cannot
             do. When a user ends it (``stop``), the case that runs is cancelled, the others are not tried,
             and the clean-up is done as ever. When the task itself is cancelled, what was started is ended at
             once, and ``Bench.made`` says what may be left.
Invariants.  The clean-up runs after each set-up that began, whatever came of it. A bug of ours or of an
             author's case is an error of that case, and no end of the test.
Source       ITS-01, ITS-06, ITS-08, ITS-09.
Called by    ``cli.driver``; tests.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MachineClass
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.integration import cleaning, furnish
from kubewright.integration.bench import Bench, CaseFailed, Skipped
from kubewright.integration.cases import Case, cases
from kubewright.integration.classes import cluster_of
from kubewright.integration.expectations import all_ready
from kubewright.integration.furnish import Made
from kubewright.integration.managers import Managers
from kubewright.integration.report import Outcome, Report, Result
from kubewright.integration.tracker import Tracked

SETUP, CLEAN_UP = "set-up", "clean-up"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Trial:
    """One run of the cases on two clusters."""

    bench: Bench
    managers: Managers
    tracked: Tracked
    more: Sequence[Case] = ()
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _made: Made = field(default_factory=Made)
    _results: list[Result] = field(default_factory=list)

    async def run(self) -> Report:
        """Run it to its end, or until ``stop`` is set."""
        clock = self.bench.control.clock
        began, at = clock.monotonic(), clock.now()
        left: Sequence[str] = ()
        try:
            if await self._try(SETUP, "the clusters are made ready", self._set_up(), quiet=True):
                await self._cases()
            left = await self._clean_up()
        except BaseException:
            self.managers.kill()
            raise
        seconds = clock.monotonic() - began
        return Report(tuple(self._results), at, seconds, tuple(left), self.stop.is_set())

    async def _cases(self) -> None:
        every = cases(self.tracked, self.more)
        for number, case in enumerate(every, 1):
            if self.stop.is_set():
                return
            self.bench.tell(f"{number}/{len(every)}  {case.name}")
            await self._try(case.identity, case.name, self._one(case))

    async def _one(self, case: Case) -> None:
        """One case, after the look that comes before each."""
        if dead := self.managers.dead():
            raise CaseFailed("; ".join(dead))
        await self.bench.until("all nodes to be Ready", all_ready)
        try:
            await case.run(self.bench)
        except SystemExit as error:  # asyncio would end the loop by it, and nothing would be cleaned up
            raise InvalidInput(f"SystemExit: {error}") from error

    async def _try(self, identity: str, name: str, work: Awaitable[None], *, quiet: bool = False) -> bool:
        """Carry it out until its end or ``stop``, and keep what came of it; whether it ended well."""
        clock = self.bench.control.clock
        began = clock.monotonic()
        outcome, message = await self._outcome(asyncio.ensure_future(work))
        took = clock.monotonic() - began
        if outcome is not Outcome.PASSED or not quiet:
            self._results.append(Result(identity, name, outcome, took, message))
            self.bench.tell(f"{took:6.1f} s  {outcome}" + (f": {message}" if message else ""))
        return outcome is Outcome.PASSED

    async def _outcome(self, task: asyncio.Future[None]) -> tuple[Outcome, str]:
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                return Outcome.ERROR, "ended by a user"
            return _came_of(task)
        finally:
            stopping.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await stopping

    async def _set_up(self) -> None:
        bench, settings = self.bench, self.bench.settings
        if not settings.seed:
            furnish.from_files(bench)  # refused before anything is begun
        bench.tell(self.managers.told)
        await furnish.install_kinds(bench, self._made)
        await furnish.refuse_strangers(bench)
        if settings.seed and self.managers.starts:
            await furnish.rest_manager(bench, self._made)
        if self.managers.starts:
            await furnish.await_leases(bench)
        self._made.ours = True
        await self.managers.start()
        if earlier := [name for _, name, _ in await cleaning.of_test(bench)]:
            bench.tell(f"an earlier run has left {', '.join(earlier)}: these go first")
            deadline = bench.control.clock.monotonic() + settings.limits.clean
            if left := await cleaning.delete_objects(bench, deadline):
                raise InvalidInput(f"what an earlier run has left does not go: {', '.join(left)}")
        first, second = await furnish.make_classes(bench, self._made)
        found = [await self._class(each) for each in (first, second)]
        name = settings.target_cluster or cluster_of(first.provider_spec.get("tags"))
        await self.tracked.begin(bench.control, found, name)
        if self.tracked.why_not:
            bench.tell(f"what is left in the cloud is not looked for: {self.tracked.why_not}")

    async def _class(self, made: MachineClass) -> MachineClass:
        """The class as the server has it."""
        return await self.bench.control.get(MACHINE_CLASS, self.bench.key(made.metadata.name))

    async def _clean_up(self) -> Sequence[str]:
        clock = self.bench.control.clock
        began = clock.monotonic()
        self.bench.tell("cleaning up")
        left = await cleaning.clean_up(self.bench, self._made, self.managers)
        left = left or list(self.bench.made)
        took = clock.monotonic() - began
        if left:
            told = f"left after {took:.0f} s: {', '.join(left)}"
            self._results.append(Result(CLEAN_UP, "nothing is left", Outcome.ERROR, took, told))
        self.bench.tell(f"{took:6.1f} s  " + (told if left else "nothing is left"))
        return left


def _came_of(task: asyncio.Future[None]) -> tuple[Outcome, str]:
    """How a task that is done has ended; a case may be another author's, and raise anything."""
    if task.cancelled():
        return Outcome.ERROR, "it has cancelled itself"
    match task.exception():
        case None:
            return Outcome.PASSED, ""
        case Skipped() as why:
            return Outcome.SKIPPED, str(why)
        case CaseFailed() as failure:
            return Outcome.FAILED, str(failure)
        case KubewrightError() as error:
            return Outcome.ERROR, str(error)
        case error:
            log.warning("a case has a bug", error=str(error), exc_info=error)
            return Outcome.ERROR, f"{type(error).__name__}: {error}"
