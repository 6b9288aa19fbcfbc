"""The commands and their arguments. Each command's work is in a module of its own, imported when called."""

import gc
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from kubewright import __version__
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import COLLECTIONS
from kubewright.cli import member, switches
from kubewright.cli.driver import driver
from kubewright.cli.local import local
from kubewright.cli.rollout.app import rollout
from kubewright.cli.run import switches as run_switches
from kubewright.cli.switches import INTERRUPTED, ended
from kubewright.cli.vm.app import classes, vm

PROGRAM = "kubewright"
ASKED = "_KUBEWRIGHT_COMPLETE"
"""The variable by which a shell asks; its name follows from the program's."""


class Shell(StrEnum):
    """The shells that can ask."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script(shell: Shell) -> str:
    """The script that a shell must source, so that it asks for completions."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    return get_completion_script(prog_name=PROGRAM, complete_var=ASKED, shell=shell.value)


def prepare() -> None:
    """Register typer's shells, when a shell asks for completions."""
    if ASKED in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


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
@switches.takes_up
def up(typed: switches.UpSwitches) -> None:
    """Serve an API, all controllers and a simulated cloud. Runs until Ctrl-C."""
    from kubewright.cli.up import command

    switches.log_at(typed.log_level)
    command.serve(typed)


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
@run_switches.takes_all
def run(typed: run_switches.RunSwitches) -> None:
    """Run the controllers on real API servers, until Ctrl-C."""
    run_switches.perform(typed)


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
    shell: Annotated[Shell, typer.Argument(help="Whose completion.", show_default=False)],
) -> None:
    """Print a script that completes words in a shell.

    For bash, in ~/.bashrc:  source <(kubewright completion bash)
    """
    print(script(shell))


@app.command()
def version() -> None:
    """Print the version."""
    print(VERSION)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script; ``arguments`` are by default those of the command line."""
    gc.set_threshold(*COLLECTIONS)
    prepare()
    ended(lambda: app(arguments, prog_name=PROGRAM), PROGRAM)
