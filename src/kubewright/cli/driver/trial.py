"""``kubewright driver test``: what is missing is asked for, the test runs, and its report is written.

Theory.      The test itself is ``kubewright.integration``. Here are the clients of both clusters, the
             programs that ``--start-manager`` runs, the driver whose VMs are listed, and the terminal. The
             first Ctrl-C ends the cases and cleans up; the second ends at once, and what may be left is
             printed.
Called by    ``cli.driver.test``.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.cli import switches
from kubewright.cli.explain import command as explain
from kubewright.cli.switches import driver_options
from kubewright.compose.assembly import close
from kubewright.compose.on_kubernetes import SIMULATED, load_driver
from kubewright.compose.options import DATA_DIR, Options
from kubewright.driver.contract import Driver, Leading
from kubewright.integration import extensions, report
from kubewright.integration.bench import Bench, Limits, Settings
from kubewright.integration.extensions import Extension
from kubewright.integration.managers import Local, Managers, Program, Running
from kubewright.integration.run import Trial
from kubewright.integration.tracker import FolderTracker, ListTracker, ResourcesTracker, Tracked
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.machines.world import CONTROLLERS, Half

MISSING, INTERRUPTED = 2, 130
"""Exit status when a setting is missing, and after Ctrl-C."""

REASONS = 3
"""At most so many conclusions of ``explain`` go into one message."""

PERIOD = "--machine-safety-overshooting-period=300ms"
"""As MCM's test runs its manager, so that a freeze is seen soon."""

AWAY = "its VMs can be listed by the manager that its drivers dial; --start-manager lets them dial in here"
IN_MEMORY = "the VMs of the simulated cloud are in the memory of the manager, which alone can list them"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for; ``control`` and the class of ``settings`` may be missing."""

    control: Path | None
    target: Path | None
    settings: Settings
    driver: str = ""
    driver_options: tuple[str, ...] = ()
    start_manager: bool = False
    run_switches: tuple[str, ...] = ()
    cases: tuple[Path, ...] = ()
    logs: Path = field(default_factory=Path)
    junit: Path | None = None


def typed(params: Mapping[str, Any]) -> Asked:
    """The values of the switches of ``cli.driver.test``, by their names.

    Raises:
        InvalidInput: a duration is none.
    """
    limits = [
        switches.duration(f"--{name.replace('_', '-')}", params[name]).total_seconds()
        for name in ("poll_interval", "timeout", "cleanup_timeout")
    ]
    settings = Settings(
        namespace=params["namespace"],
        seed=params["control_cluster_seed"],
        target_cluster=params["target_cluster_name"],
        class_v1=params["machineclass_v1"],
        class_v2=params["machineclass_v2"],
        class_patch=params["machineclass_patch"],
        manager_deployment=params["mcm_deployment"],
        preserve_crds=params["preserve_crds"],
        tags_are_strings=params["tags_are_strings"],
        limits=Limits(*limits),
    )
    return Asked(
        control=params["control_kubeconfig"],
        target=params["target_kubeconfig"],
        settings=settings,
        driver=params["driver"],
        driver_options=tuple(params["driver_option"] or ()),
        start_manager=params["start_manager"],
        run_switches=tuple(params["run_switch"] or ()),
        cases=tuple(params["cases"] or ()),
        logs=params["logs"],
        junit=params["junit"],
    )


def missing(asked: Asked) -> dict[str, str]:
    """The settings that are missing, by the name of their variable: what each is."""
    found = {}
    if asked.control is None:
        found["CONTROL_KUBECONFIG"] = (
            "the kubeconfig of the cluster that has the machines (--control-kubeconfig)"
        )
    if asked.settings.class_v1 is None and not asked.settings.seed:
        found["MACHINECLASS_V1"] = "a file with MachineClass test-mc-v1 (--machineclass-v1)"
    if asked.start_manager and not asked.driver:
        found["--driver"] = "the driver of the manager that --start-manager starts"
    return found


def completed(asked: Asked, answer: Callable[[str], str]) -> Asked:
    """The same with what was missing, as a person at the terminal answers."""
    for name, meaning in missing(asked).items():
        told = answer(f"{name}, {meaning}")
        if name == "CONTROL_KUBECONFIG":
            asked = replace(asked, control=Path(told))
        elif name == "MACHINECLASS_V1":
            asked = replace(asked, settings=replace(asked.settings, class_v1=Path(told)))
        else:
            asked = replace(asked, driver=told)
    return asked


def test(asked: Asked) -> int:
    """Run it, and return the exit status.

    Raises:
        InvalidInput: a kubeconfig, a driver or a file of cases cannot be used, or the report not be written.
    """
    if lacks := missing(asked):
        if not sys.stdin.isatty():
            told = ", and ".join(f"{name}, {meaning}" for name, meaning in lacks.items())
            print(f"kubewright: set what is missing: {told}", file=sys.stderr)
            return MISSING
        asked = completed(asked, lambda text: str(typer.prompt(text)))
    _check(asked)
    trials: list[Trial] = []

    async def work() -> report.Report:
        async with AsyncExitStack() as stack:
            trials.append(await _trial(asked, stack))
            _obey_signals(trials[0].stop)
            return await trials[0].run()

    try:
        done = asyncio.run(work())
    except asyncio.CancelledError:
        return _cut_short(trials)
    return _finish(asked, done)


def _obey_signals(stop: asyncio.Event) -> None:
    """The first signal sets ``stop``; the second cancels the task that runs now, so that what it has started
    does not outlive it."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and running is not None:
            running.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, asked)


def _check(asked: Asked) -> None:
    """Refuse what can be seen to be wrong before anything is done."""
    for name, each in (("control", asked.control), ("target", asked.target)):
        if each is not None and not each.is_file():
            raise InvalidInput(f"--{name}-kubeconfig {each}: there is no such file")
    for each in (asked.settings.class_v1, asked.settings.class_v2, asked.settings.class_patch):
        if each is not None and not each.is_file():
            raise InvalidInput(f"there is no file {each}")
    if asked.junit is not None and not asked.junit.absolute().parent.is_dir():
        raise InvalidInput(f"--junit {asked.junit}: there is no folder {asked.junit.parent}")
    limits = asked.settings.limits
    if min(limits.poll, limits.wait, limits.clean) <= 0:
        raise InvalidInput("--poll-interval, --timeout and --cleanup-timeout are longer than 0s")
    if asked.run_switches and not asked.start_manager:
        raise InvalidInput("--run-switch goes with --start-manager")


def _cut_short(trials: Sequence[Trial]) -> int:
    """After the second Ctrl-C."""
    left = [each for trial in trials for each in trial.bench.made]
    told = f"perhaps left: {', '.join(left)}" if left else "nothing was made yet, or all of it is gone"
    print(f"kubewright: ended at once; {told}", file=sys.stderr)
    return INTERRUPTED


def _finish(asked: Asked, done: report.Report) -> int:
    _tell("\n".join(["", *report.lines(done.results), done.summary()]))
    if asked.junit is not None:
        try:
            asked.junit.write_bytes(report.junit(done))
        except OSError as error:
            raise InvalidInput(f"--junit {asked.junit}: {error.strerror}") from None
    if done.interrupted and not done.left:
        return INTERRUPTED
    return 0 if done.well else 1


async def _trial(asked: Asked, stack: AsyncExitStack) -> Trial:
    clock = SystemClock()
    control = _client(asked.control, stack, clock)
    target = control if asked.target is None else _client(asked.target, stack, clock)
    print(f"control cluster: {control.name}; target cluster: {target.name}", flush=True)
    extension = extensions.installed(asked.driver) if asked.driver else Extension()
    for path in asked.cases:
        extension += extensions.from_file(path)
    managers = _managers(asked)
    tracked = _tracked(asked, extension.tracker, managers, stack, clock)

    async def reasons(_kind: str, name: str) -> Sequence[str]:
        return await explained(control, asked, name)

    bench = Bench(control, target, asked.settings, _tell, reasons)
    return Trial(bench, managers, tracked, extension.cases)


def _client(path: Path | None, stack: AsyncExitStack, clock: SystemClock) -> Client:
    transport = config.load(path, clock=clock)
    client = Client(transport, clock, name=transport.access.server)
    stack.push_async_callback(client.close)
    return client


def _tell(text: str) -> None:
    """Print a line. A terminal that was closed, or a pipe, keeps the clean-up from nothing."""
    with suppress(OSError):
        print(text, flush=True)


async def explained(control: Client, asked: Asked, name: str) -> Sequence[str]:
    """What ``explain`` concludes of a machine; nothing where it cannot."""
    what = explain.Asked(
        "machine.machine.sapcloud.io", name, asked.settings.namespace, target=asked.target or asked.control
    )
    try:
        stories = await explain.told(control, what)
    except KubewrightError:
        return ()
    waits = [clause for story in stories for clause in story.waits_for]
    named = [
        f"it waits for {wait.what}; {wait.remedy}"
        for story in stories
        for decision in story.decisions
        for wait in decision.waits
    ]
    return tuple(dict.fromkeys([*waits, *named]))[:REASONS]


def _tracked(
    asked: Asked,
    given: ResourcesTracker | None,
    managers: Managers,
    stack: AsyncExitStack,
    clock: SystemClock,
) -> Tracked:
    """The tracker: one that was given, that of the driver, or the driver's own list of VMs."""
    if given is not None:
        return Tracked(given)
    if not asked.driver:
        return Tracked(None)
    options = Options(driver=asked.driver, driver_options=driver_options(asked.driver_options, asked.driver))
    resting = Tracked(FolderTracker(lambda: _loaded(options, clock), close, managers, clock))
    if DATA_DIR in options.driver_options and managers.starts:
        return resting
    if asked.driver == SIMULATED:
        return Tracked(None, IN_MEMORY)
    driver = _loaded(options, clock)
    if isinstance(driver, Leading):
        return resting if managers.starts else Tracked(None, AWAY)
    stack.push_async_callback(close, driver)
    return Tracked(driver if isinstance(driver, ResourcesTracker) else ListTracker(driver))


def _loaded(options: Options, clock: SystemClock) -> Driver:
    driver = load_driver(options, clock)
    assert driver is not None, "a driver is named"
    return driver


def _managers(asked: Asked) -> Managers:
    if not asked.start_manager:
        return Running()
    return Local(programs(asked), asked.logs)


def programs(asked: Asked) -> tuple[Program, Program]:
    """Both halves of the manager as commands, with the names that MCM's test has for their logs."""
    common = ["--kubeconfig", str(asked.control), "--namespace", asked.settings.namespace]
    if asked.target is not None:
        common += ["--target-kubeconfig", str(asked.target)]
    chosen = ["--driver", asked.driver]
    for option in asked.driver_options:
        chosen += ["--driver-option", option]
    more: Mapping[Half, list[str]] = {Half.SETS: [PERIOD], Half.MACHINES: chosen}
    halves = ((Half.SETS, "mcm_process.log"), (Half.MACHINES, "mc_process.log"))
    made = [
        Program(
            half.value,
            [
                *(sys.executable, "-m", "kubewright", "run"),
                *("--controllers", ",".join(each.name for each in CONTROLLERS if each.lease == half)),
                *common,
                *more[half],
                *asked.run_switches,
            ],
            log,
        )
        for half, log in halves
    ]
    return made[0], made[1]
