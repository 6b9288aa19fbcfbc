"""The switches of ``kubewright run`` with their help, and their values as one object.

Names        are those of machine-controller-manager and of Kubernetes' own programs where they have the
             switch.
Called by    ``app``, which must stay quick to import: what help lists is imported when help is asked for;
             ``run`` parses the values.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from kubewright.base.errors import InvalidInput
from kubewright.cli.run import config_file
from kubewright.cli.run.mcm import BY_NAME, SWITCHES, Switch, log_level
from kubewright.cli.switches import log_at, path_of


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


def with_switches_of_mcm(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a parameter for each switch of ``mcm``; those that the user gave are its ``mcm``."""

    @wraps(command)
    def called(context: typer.Context, **typed: Any) -> None:
        values = {name: typed.pop(_parameter(name)) for name in BY_NAME}
        given = {name: text for name, text in values.items() if _is_given(context, name)}
        command(context, mcm=given, **typed)

    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.name != "mcm"]
    parameters = [*own, *(_declared(each) for each in SWITCHES)]
    called.__dict__["__signature__"] = signature.replace(parameters=parameters)  # what typer reads
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


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


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let what the file says take the place of the defaults."""
    if path is not None:
        options = [each for each in context.command.params if each.name != "config"]
        names = {word.lstrip("-"): str(each.name) for each in options for word in each.opts}
        several = {each.name for each in options if getattr(each, "multiple", False)}
        context.default_map = {
            name: [value] if name in several and isinstance(value, str) else value
            for name, value in config_file.load(path, names).items()
        }
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A YAML file with switches, as NAME: VALUE; those of the command line have precedence.",
        metavar="FILE",
        is_eager=True,
        callback=_read_config,
        parser=path_of("--config"),
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        "--control-kubeconfig",
        help="The control cluster, where machines are declared; "
        "default: $KUBECONFIG, else the pod we run in, else ~/.kube/config.",
        metavar="PATH",
        parser=path_of("--kubeconfig"),
    ),
]
TargetKubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="The cluster that nodes join; default: the control cluster; `none`: VMs join no cluster.",
        metavar="PATH",
        parser=path_of("--target-kubeconfig"),
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        help="Only objects in these namespaces: comma-separated names, or prefixes as in "
        "'team-*'; default: all.",
        metavar="LIST",
    ),
]
ExcludedNamespace = Annotated[
    str, typer.Option(help="No objects in these namespaces; names and prefixes too.", metavar="LIST")
]
WatchFilter = Annotated[
    str,
    typer.Option(
        help="Only objects whose label cluster.x-k8s.io/watch-filter says this; for the controllers of "
        "Cluster API.",
        metavar="VALUE",
    ),
]
OfShard = Annotated[
    str,
    typer.Option(
        help="Work on one shard of the machines and their sets, such as 0/3, beside processes that have the "
        "others.",
        metavar="INDEX/COUNT",
    ),
]
Controllers = Annotated[
    list[str] | None,
    typer.Option(
        help="Comma-separated names of controllers or of groups, as listed below; '*' for the usual ones, "
        "which run without it, '-name' to leave one out. May be repeated.",
        metavar="LIST",
    ),
]
SimulatedNodes = Annotated[
    bool,
    typer.Option(
        "--allow-simulated-nodes",
        help="Let the simulated cloud's nodes join a cluster that is not kubewright up.",
    ),
]
OrphanPeriod = Annotated[
    str, typer.Option(help="How often to look for VMs that no machine wants.", metavar="DURATION")
]
UnreachableAfter = Annotated[
    str,
    typer.Option(
        help="When a cluster was unreachable for so long, only deletions go on.", metavar="DURATION"
    ),
]
LeaderElect = Annotated[bool, typer.Option(help="Let one of several replicas work at a time.")]
LeaseName = Annotated[
    str,
    typer.Option(
        help="The Lease of the half that runs, or comma-separated those of sets and of machines; default: "
        "machine-controller-manager, machine-controller.",
        metavar="NAME",
    ),
]
LeaseNamespace = Annotated[
    str,
    typer.Option(
        help="Where the Leases are; default: the first namespace that is named, else default.", metavar="NS"
    ),
]
LeaseDuration = Annotated[
    str, typer.Option(help="How long a Lease lasts that is not renewed.", metavar="DURATION")
]
RenewDeadline = Annotated[
    str, typer.Option(help="A leader that could not renew for so long stops.", metavar="DURATION")
]
RetryPeriod = Annotated[
    str,
    typer.Option(
        help="How often another tries, and a leader renews; that every 12s at least.", metavar="DURATION"
    ),
]
LeaderElectExit = Annotated[
    bool,
    typer.Option(
        "--leader-elect-exit", help="Exit when a Lease is lost, instead of being a candidate again."
    ),
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        "--health-port",
        "--port",
        help="Serve /healthz, /readyz and /metrics on this port.",
        metavar="N",
        min=0,
        max=65535,
    ),
]
HealthAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="The address to serve these and webhooks on; default: 127.0.0.1, in a pod all.",
        metavar="IP",
    ),
]
WebhookPort = Annotated[
    int,
    typer.Option(help="Serve admission webhooks on this port; 0: none.", metavar="N", min=0, max=65535),
]
WebhookService = Annotated[
    str,
    typer.Option(
        help="The Service by which the API server reaches that port; default in a pod: kubewright-webhooks "
        "in its namespace.",
        metavar="NS/NAME",
    ),
]
WebhookUrl = Annotated[
    str,
    typer.Option(help="Or the address by which it does: https://HOST:PORT.", metavar="URL"),
]
WebhookPolicy = Annotated[
    Literal["Ignore", "Fail"],
    typer.Option(help="What the API server does with a write while no webhook answers."),
]

RestoreImage = Annotated[
    str,
    typer.Option(
        help="The image of this program, for pods that put a snapshot into the volumes of an etcd; without "
        "it etcd in pods is not restored.",
        metavar="IMAGE",
    ),
]


PlaceholderImage = Annotated[
    str,
    typer.Option(
        help="The image of placeholders that keep room free; empty: the pause image of Kubernetes.",
        metavar="IMAGE",
    ),
]


SnapshotFolder = Annotated[
    Path | None,
    typer.Option(
        help="The folder for files of ControlPlaneSnapshots that name no bucket, such as a mounted volume; "
        "all replicas need the same one. Without it each snapshot has to name a bucket.",
        file_okay=False,
        metavar="DIR",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSwitches:
    """What the user typed; each field is a parameter of the command. ``mcm``: of MCM's switches, by name."""

    kubeconfig: Path | None
    target_kubeconfig: Path | None
    namespace: str
    exclude_namespace: str
    watch_filter: str
    shard: str
    strict_running: bool
    controllers: list[str] | None
    driver: str
    driver_option: list[str] | None
    allow_simulated_nodes: bool
    machine_safety_orphan_vms_period: str
    machine_safety_apiserver_statuscheck_timeout: str
    encryption_algorithm: str
    leader_elect: bool
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str
    leader_elect_lease_duration: str
    leader_elect_renew_deadline: str
    leader_elect_retry_period: str
    leader_elect_exit: bool
    health_port: int | None
    address: str | None
    webhook_port: int
    webhook_service: str
    webhook_url: str
    webhook_failure_policy: str
    restore_image: str
    placeholder_image: str
    snapshot_folder: Path | None
    mcm: Mapping[str, str] = field(default_factory=dict)


def typed(parameters: Mapping[str, Any], mcm: Mapping[str, str]) -> RunSwitches:
    """What the user typed, from the parameters of the command; those that are no fields do not count."""
    own = {each.name for each in fields(RunSwitches)}
    return RunSwitches(**{name: value for name, value in parameters.items() if name in own}, mcm=mcm)


def perform(parameters: Mapping[str, Any], mcm: Mapping[str, str]) -> None:
    """Run what the user typed, and log at the level of it.

    Raises:
        InvalidInput: a switch has a bad value.
        LostLease: a Lease was lost, and ``--leader-elect-exit`` was given.
    """
    from kubewright.cli.run.command import run

    log_at(log_level(mcm, parameters["log_level"]))
    run(typed(parameters, mcm))
