"""``kubewright local``: a developer's computer takes the machines of a running manager over, and back.

Theory.      Only one program may work on machines, so the manager in the cluster is scaled to zero while a
             developer's process does its work. ``setup`` writes down what it finds before it changes
             anything, and ``restore`` reads that record: it undoes what was changed and leaves the rest
             alone. Decisions are pure (``plan``), so each moment at which ``setup`` can be killed is a case
             of a table.
Invariants.  The record is on disk before the first change that it tells of, and goes after the last one is
             undone. Kubeconfigs are written with mode 0600 and are in no line that is printed.
Files        ``command``  what the two commands do; short-lived kubeconfigs, from Gardener's API
             ``plan``     from what is found to steps: what ``setup`` changes, what ``restore`` undoes
             this file    the switches, as Gardener's scripts have them
Source       LOC-01 to LOC-03.
Called by    ``cli.app``.
"""

from pathlib import Path
from typing import Annotated

import typer

from kubewright.cli.switches import duration, log_at, path_of

FOLDER = "dev/kube-configs"
DEPLOYMENT = "machine-controller-manager"
EXPIRY = 3600

Seed = Annotated[
    str,
    typer.Option(
        *("-d", "--seed"), help="Gardener: the seed, itself a shoot of project garden.", metavar="NAME"
    ),
]
Target = Annotated[
    str,
    typer.Option(
        *("-t", "--shoot", "--target-kubeconfig-path"),
        help="With -p the shoot; else the kubeconfig of the cluster whose nodes the machines become.",
        metavar="NAME|PATH",
    ),
]
Project = Annotated[
    str, typer.Option("-p", "--project", help="Gardener: the project of the shoot.", metavar="NAME")
]
Provider = Annotated[
    str,
    typer.Option(
        *("-i", "--provider"),
        help="Write into ../machine-controller-manager-provider-NAME as well, if that folder is there.",
        metavar="NAME",
    ),
]
Landscape = Annotated[
    str,
    typer.Option(
        *("-l", "--landscape"),
        help="Gardener: the garden, as gardenctl's configuration names it; sap-landscape-NAME means it too.",
        metavar="NAME",
    ),
]
Garden = Annotated[
    Path | None,
    typer.Option(
        "--garden-kubeconfig",
        help="Gardener: the kubeconfig of the garden, in place of -l.",
        metavar="PATH",
        parser=path_of("--garden-kubeconfig"),
    ),
]
Folder = Annotated[
    str,
    typer.Option(
        *("-k", "--kubeconfig-path"), help="Where in the project kubeconfigs are written.", metavar="DIR"
    ),
]
Other = Annotated[
    Path | None,
    typer.Option(
        *("-m", "--mcm-provider-project-path"),
        help="A second project to write into, in place of -i.",
        metavar="DIR",
        parser=path_of("--mcm-provider-project-path"),
    ),
]
Expiry = Annotated[
    int,
    typer.Option(
        *("-e", "--kubeconfig-expiry-seconds"),
        help="Gardener: how long the kubeconfigs are good.",
        metavar="N",
        min=600,
        max=86400,
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        *("-n", "--namespace"),
        help="Where the manager and its machines are; with -p by default shoot--PROJECT--SHOOT.",
        metavar="NS",
    ),
]
Control = Annotated[
    Path | None,
    typer.Option(
        *("-c", "--control-kubeconfig-path"),
        help="The kubeconfig of the cluster that has the manager; with -p in place of -d.",
        metavar="PATH",
        parser=path_of("--control-kubeconfig-path"),
    ),
]
Class = Annotated[
    str,
    typer.Option(
        "-mcc", "--machineclass", help="MACHINECLASS_V1 in .env, for integration tests.", metavar="NAME"
    ),
]
Manager = Annotated[
    str,
    typer.Option(
        "--deployment", help="The manager's Deployment; '' where the cluster has none.", metavar="NAME"
    ),
]
Timeout = Annotated[str, typer.Option(help="How long to wait for the manager's end.", metavar="DURATION")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def setup(  # noqa: PLR0913 -- each is a switch of the command line
    *,
    seed: Seed = "",
    target: Target = "",
    project: Project = "",
    provider: Provider = "",
    landscape: Landscape = "dev",
    garden_kubeconfig: Garden = None,
    kubeconfig_path: Folder = FOLDER,
    provider_project: Other = None,
    expiry: Expiry = EXPIRY,
    namespace: Namespace = "",
    control_kubeconfig: Control = None,
    machine_class: Class = "",
    deployment: Manager = DEPLOYMENT,
    timeout: Timeout = "2m",
    dry_run: DryRun = False,
) -> None:
    """Take over: write kubeconfigs and .env into this project, and scale the manager in the cluster to 0."""
    from kubewright.cli.local import command, plan

    log_at("error")
    options = plan.Options(
        Path.cwd(),
        kubeconfig_path,
        other=provider_project,
        provider=provider,
        project=project,
        target=target,
        seed=seed,
        landscape=landscape,
        garden=garden_kubeconfig.absolute() if garden_kubeconfig else None,
        expiry=expiry,
        namespace=namespace,
        control=control_kubeconfig.absolute() if control_kubeconfig else None,
        machine_class=machine_class,
        deployment=deployment,
    )
    if not command.set_up(options, duration("--timeout", timeout).total_seconds(), dry_run=dry_run):
        raise typer.Exit(1)


def restore(
    *,
    deployment_stays: Annotated[
        bool, typer.Option("--files-only", help="Leave the manager's Deployment as it is.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Give back: undo in the cluster and in the projects what setup, in this folder, has changed."""
    from kubewright.cli.local import command

    log_at("error")
    command.give_back(Path.cwd(), with_deployment=not deployment_stays, dry_run=dry_run)


local = typer.Typer(
    help="Work here on the machines of a cluster, and give them back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
local.command(name="setup")(setup)
local.command(name="restore")(restore)
