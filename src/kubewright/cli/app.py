"""The commands and their arguments. Each command's work is in a module of its own, imported when called."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from kubewright import __version__
from kubewright.base.errors import InvalidInput
from kubewright.cli import completion as completions
from kubewright.cli import member, switches
from kubewright.cli.driver import driver
from kubewright.cli.local import local
from kubewright.cli.rollout.app import rollout
from kubewright.cli.run import switches as run_switches
from kubewright.cli.signals import INTERRUPTED, ended
from kubewright.cli.vm.app import classes, vm

app = typer.Typer(
    name="kubewright",
    help="Declares, makes, heals, rolls and retires Kubernetes machines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

VERSION = f"kubewright {__version__}"


def _print_version(asked: bool) -> None:
    if asked:
        print(VERSION)
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The switches before any command."""


@app.command()
def up(  # noqa: PLR0913 -- each is a switch of the command line
    *,
    data_dir: switches.DataDir = switches.DATA_DIR,
    port: switches.Port = None,
    address: switches.Address = "127.0.0.1",
    tls_san: switches.Names = None,
    kubeconfig: switches.Kubeconfig = None,
    merge_kubeconfig: switches.MergeKubeconfig = False,
    context: switches.Context = "kubewright",
    use_context: switches.UseContext = False,
    encryption_algorithm: switches.EncryptionAlgorithm = switches.ENCRYPTION_ALGORITHM,
    strict_running: switches.StrictRunning = False,
    worlds: switches.Worlds = "",
    no_clusters: switches.NoClusters = False,
    driver: switches.DriverName = "sim",
    driver_option: switches.DriverOption = None,
    programs: switches.ComponentPrograms = None,
    user: switches.ComponentUser = "",
    users: switches.ComponentUsers = switches.COMPONENT_USERS,
    share_user: switches.ShareComponentUser = False,
    addresses: switches.ComponentAddresses = switches.COMPONENT_ADDRESSES,
    accept_data_loss: switches.AcceptDataLoss = False,
    log_level: switches.Verbosity = "warning",
) -> None:
    """Serve an API, all controllers and a simulated cloud. Runs until Ctrl-C."""
    from kubewright.cli.up import command, merging
    from kubewright.compose.options import Options

    switches.log_at(log_level)
    command.up(
        command.server(data_dir, port, kubeconfig, address, tls_san or (), accept_loss=accept_data_loss),
        Options(
            controllers=switches.controllers(worlds, clusters=not no_clusters),
            driver=driver,
            driver_options=switches.driver_options(driver_option or (), driver),
            bootstrap=switches.bootstrap(encryption_algorithm),
            strict_running=strict_running,
            processes=switches.processes(programs, addresses, user, users, shared=share_user),
        ),
        merging.wanted(context, merge=merge_kubeconfig, use=use_context),
    )


@app.command()
def down(
    data_dir: switches.DataDir = switches.DATA_DIR,
    timeout: Annotated[str, typer.Option(help="How long to wait for its end.", metavar="DURATION")] = "30s",
) -> None:
    """End the `up` that serves a data folder. Its data are kept."""
    from kubewright.cli.serving import down as command

    print(command(data_dir, switches.duration("--timeout", timeout)))


@app.command()
def status(
    *,
    namespace: switches.TroublesOf = "",
    all_namespaces: switches.AllNamespaces = False,
    kubeconfig: switches.OfMachines = None,
    data_dir: switches.Served = None,
    manager: switches.ManagerAddress = "",
    output: switches.Output = "",
) -> None:
    """Show what serves a folder, or all troubles of a namespace.

    Ends with 0 while all is well, 1 if something is not; of a folder with 3 if nothing runs.
    """
    switches.log_at("error")
    if namespace or all_namespaces:
        from kubewright.cli.troubles.command import status as troubles

        where = switches.Where(kubeconfig, data_dir)
        raise typer.Exit(troubles(where, "" if all_namespaces else namespace, manager, output))
    if kubeconfig is not None or manager or output:
        raise InvalidInput("--kubeconfig, --manager and -o go with -n NAMESPACE or -A")
    from kubewright.cli.serving import status as command

    page, code = command(data_dir or switches.DATA_DIR)
    print(page)
    raise typer.Exit(code)


@app.command()
def demo(
    story: Annotated[str, typer.Argument(help="machines or clusters.", metavar="STORY")] = "machines",
    log_level: switches.Verbosity = "error",
) -> None:
    """Watch machines come up, heal, scale, roll and go. Takes half a minute and leaves nothing behind."""
    from kubewright.cli.demo import demo as command

    switches.log_at(log_level)
    ended_well = command(story)
    if ended_well is None:
        print("kubewright: stopped before the end; nothing is left behind", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(not ended_well)


@app.command(cls=run_switches.RunCommand)
@run_switches.with_switches_of_mcm
def run(  # noqa: PLR0913 -- each is a switch of the command line
    context: typer.Context,
    *,
    mcm: Mapping[str, str],
    config: run_switches.ConfigFile = None,
    kubeconfig: run_switches.Kubeconfig = None,
    target_kubeconfig: run_switches.TargetKubeconfig = None,
    namespace: run_switches.Namespace = "",
    exclude_namespace: run_switches.ExcludedNamespace = "",
    watch_filter: run_switches.WatchFilter = "",
    shard: run_switches.OfShard = "",
    strict_running: switches.StrictRunning = False,
    controllers: run_switches.Controllers = None,
    driver: switches.DriverName = "",
    driver_option: switches.DriverOption = None,
    allow_simulated_nodes: run_switches.SimulatedNodes = False,
    machine_safety_orphan_vms_period: run_switches.OrphanPeriod = "30m",
    machine_safety_apiserver_statuscheck_timeout: run_switches.UnreachableAfter = "30s",
    encryption_algorithm: switches.EncryptionAlgorithm = switches.ENCRYPTION_ALGORITHM,
    leader_elect: run_switches.LeaderElect = True,
    leader_elect_resource_name: run_switches.LeaseName = "",
    leader_elect_resource_namespace: run_switches.LeaseNamespace = "",
    leader_elect_lease_duration: run_switches.LeaseDuration = "30s",
    leader_elect_renew_deadline: run_switches.RenewDeadline = "20s",
    leader_elect_retry_period: run_switches.RetryPeriod = "12s",
    leader_elect_exit: run_switches.LeaderElectExit = False,
    health_port: run_switches.HealthPort = None,
    address: run_switches.HealthAddress = None,
    webhook_port: run_switches.WebhookPort = 0,
    webhook_service: run_switches.WebhookService = "",
    webhook_url: run_switches.WebhookUrl = "",
    webhook_failure_policy: run_switches.WebhookPolicy = "Ignore",
    restore_image: run_switches.RestoreImage = "",
    placeholder_image: run_switches.PlaceholderImage = "",
    snapshot_folder: run_switches.SnapshotFolder = None,
    log_level: switches.Verbosity = "info",
) -> None:
    """Run the controllers on real API servers, until Ctrl-C."""
    run_switches.perform(context.params, mcm)


@app.command()
def crds(
    apis: Annotated[
        list[str] | None,
        typer.Argument(
            help="machines, clusters, bootstrap, infrastructure, controlplanes, reserves, clusterctl; all by "
            "default.",
            metavar="[API]...",
        ),
    ] = None,
    *,
    worlds: switches.Worlds = "",
) -> None:
    """Print the CustomResourceDefinitions, for kubectl apply -f -"""
    from kubewright.api import catalog
    from kubewright.api.machine.manifests import as_yaml
    from kubewright.compose.worlds import named

    if worlds and apis:
        raise InvalidInput("--worlds and the names of APIs choose the same twice; leave one out")
    if worlds:
        found = [each for world in named(worlds.split(",")) for each in world.definitions()]
        sys.stdout.write(as_yaml(found))
        return
    if unknown := sorted(set(apis or ()) - set(catalog.DEFINITIONS)):
        raise InvalidInput(f"no API {', '.join(unknown)}; there are: {', '.join(catalog.DEFINITIONS)}")
    sys.stdout.write(as_yaml(catalog.crds(*(apis or ()))))


app.add_typer(member.app, name="restore-member", hidden=True)
cluster = typer.Typer(
    help="Show clusters of Cluster API.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster, name="cluster")
app.add_typer(rollout, name="rollout")
app.add_typer(driver, name="driver")
app.add_typer(vm, name="vm")
app.add_typer(local, name="local")
app.add_typer(classes, name="class")


@cluster.command()
def describe(
    name: switches.ClusterName,
    *,
    namespace: switches.ClusterNamespace = "default",
    kubeconfig: switches.OfClusters = None,
    data_dir: switches.Served = None,
    output: switches.Output = "",
) -> None:
    """Show what a cluster consists of, how its parts are, and what they wait for."""
    from kubewright.cli.cluster.command import describe as command
    from kubewright.wire.gvk import Key

    switches.log_at("error")
    command(switches.Where(kubeconfig, data_dir), Key(namespace, name), output)


@cluster.command(name="kubeconfig")
def kubeconfig_of(
    name: switches.ClusterName,
    *,
    namespace: switches.ClusterNamespace = "default",
    kubeconfig: switches.OfClusters = None,
    data_dir: switches.Served = None,
) -> None:
    """Print the kubeconfig of a cluster.

    Write it to a file that only you can read, since it has a private key:
    (umask 077; kubewright cluster kubeconfig demo > demo.kubeconfig)
    """
    from kubewright.cli.cluster.command import kubeconfig_of as command
    from kubewright.wire.gvk import Key

    switches.log_at("error")
    command(switches.Where(kubeconfig, data_dir), Key(namespace, name))


@app.command()
def explain(
    kind: switches.ExplainedKind,
    name: switches.ExplainedName = "",
    *,
    namespace: switches.ExplainedNamespace = "default",
    kubeconfig: switches.OfMachines = None,
    data_dir: switches.Served = None,
    target_kubeconfig: switches.OfNodes = None,
    manager: switches.ManagerAddress = "",
    output: switches.Output = "",
) -> None:
    """Say why an object is as it is, and what comes next."""
    from kubewright.cli.explain.command import Asked
    from kubewright.cli.explain.command import explain as command

    switches.log_at("error")
    command(
        switches.Where(kubeconfig, data_dir), Asked(kind, name, namespace, manager, target_kubeconfig), output
    )


@app.command()
def watch(
    *,
    namespace: switches.ExplainedNamespace = "default",
    kubeconfig: switches.OfMachines = None,
    data_dir: switches.Served = None,
    target_kubeconfig: switches.OfNodes = None,
    limit: Annotated[str, typer.Option("--for", help="How long; 0: until Ctrl-C.", metavar="DURATION")] = "0",
) -> None:
    """Show the machines of a namespace while they change."""
    from kubewright.cli.watch.command import Watched
    from kubewright.cli.watch.command import watch as command

    switches.log_at("error")
    command(
        switches.Where(kubeconfig, data_dir),
        Watched(namespace, target_kubeconfig, switches.duration("--for", limit)),
    )


@app.command()
def completion(
    shell: Annotated[completions.Shell, typer.Argument(help="Whose completion.", show_default=False)],
) -> None:
    """Print a script that completes words in a shell.

    For bash, in ~/.bashrc:  source <(kubewright completion bash)
    """
    print(completions.script(shell))


@app.command()
def version() -> None:
    """Print the version."""
    print(VERSION)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script; ``arguments`` are by default those of the command line."""
    completions.prepare()
    ended(lambda: app(arguments, prog_name=completions.PROGRAM), completions.PROGRAM)
