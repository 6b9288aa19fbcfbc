"""The switches of `up`, and those that several commands have; parsed and refused in the same way.

Theory.      A command with many switches has a table of them: a dataclass with a row for each, which is its
             name, type, help and default. The parameters are made from the rows (``rows``), so help,
             completion, configuration files and the generated page say what the program reads.
Called by    ``app``, which must stay quick to import.
"""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_origin, get_type_hints

import typer

from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput, KubewrightError, OnChange, Retry

if TYPE_CHECKING:
    from kubewright.bootstrap.seen import BootstrapSettings
    from kubewright.controlplanes.hosting.processes.options import ProcessOptions


class Unusable(InvalidInput):
    """A file or a value that a switch names cannot be used; the status is that of a command line that cannot
    be understood."""


def path_of(switch: str) -> Callable[[str], Path]:
    """A parser of a switch's path.

    An empty value comes from a variable that is not set, ``--data-dir "$DATA"``; as a path it would mean
    the current folder.
    """

    def read(text: str) -> Path:
        if not str(text).strip():
            raise Unusable(f"{switch} is empty; name a path, or leave the switch out")
        return Path(text)

    return read


DataDir = Annotated[
    Path,
    typer.Option(help="Where everything is kept.", metavar="DIR", parser=path_of("--data-dir")),
]

DATA_DIR = Path(".kubewright")
"""Where everything is kept when no folder is named."""


Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the kubeconfig; default: DIR/kubeconfig.",
        metavar="PATH",
        parser=path_of("--kubeconfig"),
    ),
]

StrictRunning = Annotated[
    bool,
    typer.Option(
        "--strict-running",
        help="Machines of Cluster API are in the phase Running only while their Nodes are Ready.",
    ),
]
Verbosity = Annotated[
    str, typer.Option("--log-level", help="debug, info, warning or error.", metavar="LEVEL")
]
DriverName = Annotated[
    str,
    typer.Option(help="The cloud, by the name of an installed driver; sim simulates one.", metavar="NAME"),
]
DriverOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE for the driver; may be given again.", metavar="NAME=VALUE"),
]
Worlds = Annotated[
    str,
    typer.Option(
        help="Only these APIs, with commas between: machines, clusters, bootstrap, infra, controlplanes, "
        "reserves. "
        "With machines alone `kubectl get machines` means those of machine.sapcloud.io. Default: all.",
        metavar="LIST",
    ),
]
EncryptionAlgorithm = Annotated[
    str,
    typer.Option(
        help="Of the keys of authorities that we make for clusters, as kubeadm names it: RSA-2048, or "
        "ECDSA-P256, which takes a thousandth of the time.",
        metavar="NAME",
    ),
]
ENCRYPTION_ALGORITHM = "RSA-2048"
"""As Cluster API's own bootstrap provider."""

COMPONENT_USERS = "1900000000-1999999999"
COMPONENT_ADDRESSES = "127.64.0.0/10"

ClusterName = Annotated[str, typer.Argument(help="Of the cluster.", metavar="NAME", show_default=False)]
ClusterNamespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Where the cluster is.", metavar="NS")
]
DeploymentName = Annotated[
    str,
    typer.Argument(
        help="mcd/NAME of machine.sapcloud.io, md/NAME of cluster.x-k8s.io.",
        metavar="KIND/NAME",
        show_default=False,
    ),
]
DeploymentNamespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Where the deployment is.", metavar="NS")
]


def _server(that_has: str) -> Any:
    """The option that names the server which has something."""
    default = (
        f"$KUBECONFIG, else the `up` that serves {DATA_DIR}, else the pod we run in, else ~/.kube/config"
    )
    told = f"The server that has {that_has}; default: {default}."
    return typer.Option("--kubeconfig", help=told, metavar="PATH", parser=path_of("--kubeconfig"))


@dataclass(frozen=True, slots=True)
class Where:
    """Which server a command asks, as its switches say; ``data_dir``: the ``up`` that serves this folder."""

    kubeconfig: Path | None = None
    data_dir: Path | None = None


Served = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Ask the `up` that serves this folder, whatever $KUBECONFIG says.",
        metavar="DIR",
        parser=path_of("--data-dir"),
    ),
]

OfDeployments = Annotated[Path | None, _server("it")]
OfClusters = Annotated[Path | None, _server("the Cluster")]

ExplainedKind = Annotated[
    str,
    typer.Argument(
        help="machine, machineset, machinedeployment, node, cluster, or another kind; with its group where "
        "two have it: machine.cluster.x-k8s.io.",
        metavar="KIND",
        show_default=False,
    ),
]
ExplainedName = Annotated[str, typer.Argument(help="Of the object.", metavar="NAME", show_default=False)]
ExplainedNamespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Where the object is.", metavar="NS")
]
OfMachines = Annotated[Path | None, _server("the machines")]
OfNodes = Annotated[
    Path | None,
    typer.Option(
        "--target-kubeconfig",
        help="The server that has their nodes; default: the same.",
        metavar="PATH",
        parser=path_of("--target-kubeconfig"),
    ),
]
ManagerAddress = Annotated[
    str,
    typer.Option(
        "--manager",
        help="The health port of the `kubewright run` that decides, such as http://127.0.0.1:8080; `up` "
        "needs none.",
        metavar="URL",
    ),
]
TroublesOf = Annotated[
    str, typer.Option("-n", "--namespace", help="Show the troubles of this namespace.", metavar="NS")
]
AllNamespaces = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="Show the troubles of all namespaces.")
]
Output = Annotated[str, typer.Option("-o", "--output", help="json; default: text.", metavar="FORM")]


def processes(
    programs: Iterable[str] | None, addresses: str, user: str, users: str, *, shared: bool
) -> "ProcessOptions":
    """What was chosen about components that run as processes.

    Raises:
        InvalidInput: a range is none, or a folder is not there.
    """
    from kubewright.controlplanes.hosting.processes.options import ProcessOptions

    for folder in programs or ():
        if not Path(folder).is_dir():
            raise InvalidInput(f"--component-programs {folder}: there is no such folder")
    return ProcessOptions(tuple(programs or ()), user, addresses, users, shared)


def bootstrap(algorithm: str) -> "BootstrapSettings":
    """How the bootstrap provider behaves, by the value of ``--encryption-algorithm``.

    Raises:
        InvalidInput: there is no such algorithm.
    """
    from kubewright.bootstrap.seen import BootstrapSettings
    from kubewright.pki.keys import Algorithm

    if algorithm not in list(Algorithm):
        raise InvalidInput(f"--encryption-algorithm {algorithm!r}: there are {', '.join(Algorithm)}")
    return BootstrapSettings(algorithm=Algorithm(algorithm))


def duration(switch: str, text: str) -> timedelta:
    """The value of a switch as a duration, in Go's syntax.

    Raises:
        InvalidInput: it is not a duration, or shorter than nothing.
    """
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"{switch}: {error}") from None
    if found < timedelta():
        raise InvalidInput(f"{switch}: {text!r} is negative")
    return found


def log_at(level: str) -> None:
    """Write the log from this level on, to stderr.

    Raises:
        InvalidInput: there is no such level.
    """
    from kubewright.base.clock import SystemClock
    from kubewright.runtime import log

    try:
        log.configure(SystemClock(), level=level)
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def pairs(words: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping.

    Raises:
        InvalidInput: a word without ``=``, or a name given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--driver-option wants NAME=VALUE, not {word!r}")
        if name in found:
            raise InvalidInput(f"--driver-option {name} is given twice")
        found[name] = value
    return found


def driver_options(
    words: Iterable[str], driver: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options of a driver: those of the command line, and below them those of variables ``MC_...``.

    Raises:
        InvalidInput: as ``pairs``; two variables give one option, or the driver cannot be loaded.
    """
    typed, environ = pairs(words), os.environ if environ is None else environ
    if not driver or not any(each.startswith("MC_") for each in environ):
        return typed
    import structlog

    from kubewright.compose.options import DATA_DIR as FOLDER
    from kubewright.driver import registry

    said = registry.options_of(driver)
    given, unknown = registry.from_environment(environ, None if said is None else {*said, FOLDER})
    log = structlog.get_logger("kubewright.cli")
    for each in unknown:
        log.warning(
            "this variable has no effect: the driver has no such option", variable=each, driver=driver
        )
    if given:
        log.info("options of the driver from the environment", driver=driver, options=sorted(given))
    return {**given, **typed}


def controllers(worlds: str, *, clusters: bool = True) -> tuple[str, ...]:
    """The names of the worlds in ``--worlds``, which stand for controllers; or of machines alone.

    Raises:
        InvalidInput: there is no world of a name, or one reads objects of another that is not named.
    """
    from kubewright.compose.worlds import complete, named

    if not clusters and worlds:
        raise InvalidInput("--worlds and --no-clusters choose the same twice; leave one out")
    worlds = worlds if clusters else "machines"
    return tuple(each.name for each in complete(named(worlds.split(","))))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSwitches:
    """The switches of ``up``: a row each, with type, help and default."""

    data_dir: DataDir = DATA_DIR
    port: Annotated[
        int | None,
        typer.Option(
            help="Port to listen on; 0 picks a free one. Default: the one of the last start.",
            metavar="N",
            min=0,
            max=65535,
        ),
    ] = None
    address: Annotated[
        str,
        typer.Option(
            help="Address of this machine to listen on; one beyond loopback lets machines join.", metavar="IP"
        ),
    ] = "127.0.0.1"
    tls_san: Annotated[
        list[str] | None,
        typer.Option(
            "--tls-san",
            help="A name or address by which others reach the server; may be repeated. The first is told to "
            "machines that join.",
            metavar="NAME",
        ),
    ] = None
    kubeconfig: Kubeconfig = None
    merge_kubeconfig: Annotated[
        bool,
        typer.Option(
            "--merge-kubeconfig",
            help="Put a context into your own kubeconfig too ($KUBECONFIG, ~/.kube/config).",
        ),
    ] = False
    context: Annotated[str, typer.Option(help="Name of that context.", metavar="NAME")] = "kubewright"
    use_context: Annotated[
        bool, typer.Option("--use-context", help="Make it the current one; else it is if there is none.")
    ] = False
    encryption_algorithm: EncryptionAlgorithm = ENCRYPTION_ALGORITHM
    strict_running: StrictRunning = False
    worlds: Worlds = ""
    no_clusters: Annotated[
        bool,
        typer.Option(
            "--no-clusters",
            help="Without Cluster API, so that `kubectl get machines` means those of machine.sapcloud.io; as "
            "--worlds machines.",
        ),
    ] = False
    driver: DriverName = "sim"
    driver_option: DriverOption = None
    programs: Annotated[
        list[str] | None,
        typer.Option(
            "--component-programs",
            help="A folder with etcd, kube-apiserver and kube-controller-manager, or with a folder for each "
            "version of them; may be repeated. Searched before $KUBEWRIGHT_ASSETS, the cache of `make kube` "
            "and $PATH. A user who may edit a component may run any other program in it too (spec.binary).",
            metavar="DIR",
        ),
    ] = None
    user: Annotated[
        str,
        typer.Option(
            "--component-user",
            help="Who these programs run as; default, where kubewright runs as root: a user of its own for "
            "each control plane.",
            metavar="NAME",
        ),
    ] = ""
    users: Annotated[
        str,
        typer.Option(
            "--component-users",
            help="The user ids of control planes, where each has its own.",
            metavar="FIRST-LAST",
        ),
    ] = COMPONENT_USERS
    share_user: Annotated[
        bool,
        typer.Option(
            "--share-component-user",
            help="Let control planes of several namespaces run as one user, where each has none of its own: "
            "programs of one can then read the keys of the others.",
        ),
    ] = False
    addresses: Annotated[
        str,
        typer.Option(
            "--component-addresses",
            help="The addresses that they listen on: of loopback, or private.",
            metavar="RANGE",
        ),
    ] = COMPONENT_ADDRESSES
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss",
            help="Start also where objects or files are missing that were there; "
            "versions go on above all former ones.",
        ),
    ] = False
    log_level: Verbosity = "warning"


def takes_up(command: Callable[[UpSwitches], None]) -> Callable[..., None]:
    """The command with a parameter for each row of ``UpSwitches``."""

    @wraps(command)
    def called(**values: Any) -> None:
        command(UpSwitches(**values))

    return with_parameters(called, rows(UpSwitches))


def rows(table: type[Any]) -> list[inspect.Parameter]:
    """A parameter of a command for each annotated field of a table of switches."""
    hints = get_type_hints(table, include_extras=True)
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(table)
        if get_origin(hints[each.name]) is Annotated
    ]


def with_parameters(
    command: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """The command as one that has these parameters, for typer."""
    command.__dict__["__signature__"] = inspect.Signature(list(parameters))
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


T = TypeVar("T")

REFUSED, MISTYPED = 1, 2
"""Exit statuses: what was asked for cannot be done; what was asked for cannot be understood."""
INTERRUPTED = 130
"""Exit status after Ctrl-C in a command that was not finished, as shells have it."""


class Stopped(KubewrightError):
    """The user has ended a command before it had a result, and it has said what that leaves."""

    retry: Retry = OnChange()


def ended(command: Callable[[], object], program: str) -> None:
    """Run a command; what a user may have caused ends the process with one sentence and a status."""
    try:
        command()
    except Stopped:
        sys.exit(INTERRUPTED)
    except Unusable as error:
        _fail(program, error, MISTYPED)
    except KubewrightError as error:
        _fail(program, error, REFUSED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output (a pipe) has ended, so no message can reach it
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _fail(program: str, error: KubewrightError, status: int) -> NoReturn:
    print(f"{program}: {error}", file=sys.stderr)
    sys.exit(status)


def run_until_signal(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Run ``work(stop)`` in a new event loop; ``stop`` is set by the first SIGINT or SIGTERM."""
    return asyncio.run(_guarded(work))


async def _guarded(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # the next one ends the process at once

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    return await work(stop)
