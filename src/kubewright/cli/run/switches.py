"""The switches of ``kubewright run`` with their help, and their values as one object.

Theory.      ``RunSwitches`` has a row for each switch of ours, ``mcm.SWITCHES`` one for each of MCM's; the
             parameters of the command are made of both.
Names        are those of machine-controller-manager and of Kubernetes' own programs where they have the
             switch.
Called by    ``app``, which must stay quick to import: what help lists is imported when help is asked for;
             ``run`` parses the values.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from kubewright.base.errors import InvalidInput
from kubewright.base.limits import CONFIG_BYTES
from kubewright.cli.run.mcm import BY_NAME, SWITCHES, Switch, log_level
from kubewright.cli.switches import (
    ENCRYPTION_ALGORITHM,
    DriverName,
    DriverOption,
    EncryptionAlgorithm,
    StrictRunning,
    Verbosity,
    log_at,
    path_of,
    rows,
    with_parameters,
)
from kubewright.wire import goyaml


def load(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """What a file says, by the parameters of the command.

    Args:
        path: the file.
        names: the parameter of each switch that the command has, by the switch's name without dashes.

    Raises:
        InvalidInput: it cannot be read, is too large, or is no mapping; or names a switch that there is not.
    """
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"--config {path}: {error.strerror}") from None
    if len(data) > CONFIG_BYTES:
        raise InvalidInput(f"--config {path}: larger than {CONFIG_BYTES} bytes")
    return parsed(data, names, str(path))


def parsed(data: bytes, names: Mapping[str, str], source: str) -> dict[str, Any]:
    """As ``load``, from the content of the file."""
    try:
        documents = goyaml.load_all(data)
    except goyaml.Unreadable as error:
        raise InvalidInput(f"--config {source}: {error}") from None
    if len(documents) > 1:
        raise InvalidInput(f"--config {source}: it has more than one document")
    found = documents[0] if documents else None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidInput(f"--config {source}: it is no mapping from switches to values")
    for name, value in found.items():
        if name not in names:
            raise InvalidInput(f"--config {source}: there is no switch --{name}")
        if any(not isinstance(each, _SCALARS) for each in (value if isinstance(value, list) else [value])):
            raise InvalidInput(f"--config {source}: {name} wants a text, a number, true or false, or a list")
    return {names[name]: _plain(value) for name, value in found.items()}


_SCALARS = (str, int, float)


def _plain(value: Any) -> Any:
    """A value as the command line would give it; booleans and lists as they are."""
    if isinstance(value, bool):
        return value
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let what the file says take the place of the defaults."""
    if path is not None:
        options = [each for each in context.command.params if each.name != "config"]
        names = {word.lstrip("-"): str(each.name) for each in options for word in each.opts}
        several = {each.name for each in options if getattr(each, "multiple", False)}
        context.default_map = {
            name: [value] if name in several and isinstance(value, str) else value
            for name, value in load(path, names).items()
        }
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSwitches:
    """Kubewright's own switches of ``run``, and those of both: a row each, with type, help and default.

    ``mcm``: of MCM's switches those that the user typed, by name.
    """

    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="A YAML file with switches, as NAME: VALUE; those of the command line have precedence.",
            metavar="FILE",
            is_eager=True,
            callback=_read_config,
            parser=path_of("--config"),
        ),
    ] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            "--control-kubeconfig",
            help="The control cluster, where machines are declared; "
            "default: $KUBECONFIG, else the pod we run in, else ~/.kube/config.",
            metavar="PATH",
            parser=path_of("--kubeconfig"),
        ),
    ] = None
    target_kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="The cluster that nodes join; default: the control cluster; `none`: VMs join no cluster.",
            metavar="PATH",
            parser=path_of("--target-kubeconfig"),
        ),
    ] = None
    namespace: Annotated[
        str,
        typer.Option(
            help="Only objects in these namespaces: comma-separated names, or prefixes as in "
            "'team-*'; default: all.",
            metavar="LIST",
        ),
    ] = ""
    exclude_namespace: Annotated[
        str, typer.Option(help="No objects in these namespaces; names and prefixes too.", metavar="LIST")
    ] = ""
    watch_filter: Annotated[
        str,
        typer.Option(
            help="Only objects whose label cluster.x-k8s.io/watch-filter says this; for the controllers of "
            "Cluster API.",
            metavar="VALUE",
        ),
    ] = ""
    shard: Annotated[
        str,
        typer.Option(
            help="Work on one shard of the machines and their sets, such as 0/3, beside processes "
            "that have the "
            "others.",
            metavar="INDEX/COUNT",
        ),
    ] = ""
    strict_running: StrictRunning = False
    controllers: Annotated[
        list[str] | None,
        typer.Option(
            help="Comma-separated names of controllers or of groups, as listed below; '*' for the "
            "usual ones, "
            "which run without it, '-name' to leave one out. May be repeated.",
            metavar="LIST",
        ),
    ] = None
    driver: DriverName = ""
    driver_option: DriverOption = None
    allow_simulated_nodes: Annotated[
        bool,
        typer.Option(
            "--allow-simulated-nodes",
            help="Let the simulated cloud's nodes join a cluster that is not kubewright up.",
        ),
    ] = False
    machine_safety_orphan_vms_period: Annotated[
        str, typer.Option(help="How often to look for VMs that no machine wants.", metavar="DURATION")
    ] = "30m"
    machine_safety_apiserver_statuscheck_timeout: Annotated[
        str,
        typer.Option(
            help="When a cluster was unreachable for so long, only deletions go on.", metavar="DURATION"
        ),
    ] = "30s"
    encryption_algorithm: EncryptionAlgorithm = ENCRYPTION_ALGORITHM
    leader_elect: Annotated[bool, typer.Option(help="Let one of several replicas work at a time.")] = True
    leader_elect_resource_name: Annotated[
        str,
        typer.Option(
            help="The Lease of the half that runs, or comma-separated those of sets and of machines; "
            "default: "
            "machine-controller-manager, machine-controller.",
            metavar="NAME",
        ),
    ] = ""
    leader_elect_resource_namespace: Annotated[
        str,
        typer.Option(
            help="Where the Leases are; default: the first namespace that is named, else default.",
            metavar="NS",
        ),
    ] = ""
    leader_elect_lease_duration: Annotated[
        str, typer.Option(help="How long a Lease lasts that is not renewed.", metavar="DURATION")
    ] = "30s"
    leader_elect_renew_deadline: Annotated[
        str, typer.Option(help="A leader that could not renew for so long stops.", metavar="DURATION")
    ] = "20s"
    leader_elect_retry_period: Annotated[
        str,
        typer.Option(
            help="How often another tries, and a leader renews; that every 12s at least.", metavar="DURATION"
        ),
    ] = "12s"
    leader_elect_exit: Annotated[
        bool,
        typer.Option(
            "--leader-elect-exit", help="Exit when a Lease is lost, instead of being a candidate again."
        ),
    ] = False
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port",
            "--port",
            help="Serve /healthz, /readyz and /metrics on this port.",
            metavar="N",
            min=0,
            max=65535,
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="The address to serve these and webhooks on; default: 127.0.0.1, in a pod all.",
            metavar="IP",
        ),
    ] = None
    webhook_port: Annotated[
        int,
        typer.Option(help="Serve admission webhooks on this port; 0: none.", metavar="N", min=0, max=65535),
    ] = 0
    webhook_service: Annotated[
        str,
        typer.Option(
            help="The Service by which the API server reaches that port; default in a pod: "
            "kubewright-webhooks "
            "in its namespace.",
            metavar="NS/NAME",
        ),
    ] = ""
    webhook_url: Annotated[
        str,
        typer.Option(help="Or the address by which it does: https://HOST:PORT.", metavar="URL"),
    ] = ""
    webhook_failure_policy: Annotated[
        Literal["Ignore", "Fail"],
        typer.Option(help="What the API server does with a write while no webhook answers."),
    ] = "Ignore"
    restore_image: Annotated[
        str,
        typer.Option(
            help="The image of this program, for pods that put a snapshot into the volumes of an "
            "etcd; without "
            "it etcd in pods is not restored.",
            metavar="IMAGE",
        ),
    ] = ""
    placeholder_image: Annotated[
        str,
        typer.Option(
            help="The image of placeholders that keep room free; empty: the pause image of Kubernetes.",
            metavar="IMAGE",
        ),
    ] = ""
    snapshot_folder: Annotated[
        Path | None,
        typer.Option(
            help="The folder for files of ControlPlaneSnapshots that name no bucket, such as a "
            "mounted volume; "
            "all replicas need the same one. Without it each snapshot has to name a bucket.",
            file_okay=False,
            metavar="DIR",
        ),
    ] = None
    log_level: Verbosity = "info"
    mcm: Mapping[str, str] = field(default_factory=dict)


class RunCommand(TyperCommand):
    """``run``, with Go's way to write a boolean switch (``--leader-elect=false``), and the list of
    controllers at the end of its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {
            name: (each.opts[0], each.secondary_opts)
            for each in self.params
            if getattr(each, "is_flag", False)
            for name in each.opts
        }
        return super().parse_args(ctx, [told for word in args for told in _without_value(word, flags)])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from kubewright.compose.options import Options
        from kubewright.compose.worlds import leases, shown

        for world in shown(Options()):
            rows = [(each.name, f"{each.does} ({each.kind})") for each in world.controllers]
            asked = f", only with --controllers '*,{world.name}'" if world.on_request else ""
            with formatter.section(f"Controllers of {world.name}{asked} (with the kind of their objects)"):
                formatter.write_dl(rows)
                for lease in leases(world.controllers):  # a text would be broken at the hyphens of a name
                    names = ", ".join(each.name for each in world.controllers if each.lease == lease)
                    formatter.write(f"{' ' * formatter.current_indent}Lease {lease}: {names}\n")


def takes_all(command: Callable[[RunSwitches], None]) -> Callable[..., None]:
    """The command with a parameter for each row of ``RunSwitches`` and of ``mcm.SWITCHES``."""

    @wraps(command)
    def called(context: typer.Context, **values: Any) -> None:
        texts = {name: values.pop(_parameter(name)) for name in BY_NAME}
        given = {name: text for name, text in texts.items() if _is_given(context, name)}
        command(RunSwitches(**values, mcm=given))

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return with_parameters(called, [context, *rows(RunSwitches), *map(_declared, SWITCHES)])


def _parameter(name: str) -> str:
    return name.replace("-", "_")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(_parameter(name))
    return source is not None and source.name != "DEFAULT"


def _declared(switch: Switch) -> inspect.Parameter:
    option = typer.Option(
        help=switch.help,
        metavar=switch.form.shown,
        show_default=bool(switch.default),
        hidden=bool(switch.unused or switch.only),
    )
    return inspect.Parameter(
        _parameter(switch.name),
        inspect.Parameter.KEYWORD_ONLY,
        default=switch.default,
        annotation=Annotated[str, option],
    )


def _without_value(word: str, flags: Mapping[str, tuple[str, list[str]]]) -> tuple[str, ...]:
    """A word of the command line; ``--flag=false`` as ``--no-flag``, or as nothing where it is off anyway."""
    name, equals, value = word.partition("=")
    if not equals or name not in flags:
        return (word,)
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return (name,)
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return tuple(flags[name][1][:1])
    raise InvalidInput(f"{name} {value!r}: write true or false")


def perform(typed: RunSwitches) -> None:
    """Run what the user typed, and log at the level of it.

    Raises:
        InvalidInput: a switch has a bad value.
        LostLease: a Lease was lost, and ``--leader-elect-exit`` was given.
    """
    from kubewright.cli.run.command import run

    log_at(log_level(typed.mcm, typed.log_level))
    run(typed)
