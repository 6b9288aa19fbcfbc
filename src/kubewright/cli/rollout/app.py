"""The commands of ``kubewright rollout`` and their arguments.

Called by    ``cli.app``, which must stay quick to import: what a command needs is imported when it is called.
"""

from typing import Annotated

import typer

from kubewright.cli import switches

rollout = typer.Typer(
    help="Roll machines of MachineDeployments, and back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@rollout.command(name="status")
def rollout_status(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
    timeout: Annotated[
        str,
        typer.Option(help="How long to wait for its end; 0: only say how it is.", metavar="DURATION"),
    ] = "1h",
) -> None:
    """Show how far a rollout is, until it has ended. Ends with 1 if it does not end well or in time."""
    from kubewright.cli.rollout import command

    switches.log_at("error")
    target, limit = command.Deployment(deployment, namespace), switches.duration("--timeout", timeout)
    raise typer.Exit(not command.status(switches.Where(kubeconfig, data_dir), target, limit))


@rollout.command(name="history")
def rollout_history(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
    revision: Annotated[int, typer.Option(help="Print the template of this one.", metavar="N", min=0)] = 0,
) -> None:
    """List the templates that a deployment has and had."""
    from kubewright.cli.rollout import command

    switches.log_at("error")
    command.history(switches.Where(kubeconfig, data_dir), command.Deployment(deployment, namespace), revision)


@rollout.command(name="undo")
def rollout_undo(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
    to_revision: Annotated[
        int, typer.Option(help="To this one; 0: the one before the present.", metavar="N", min=0)
    ] = 0,
) -> None:
    """Go back to an earlier template."""
    from kubewright.cli.rollout import command, decide

    switches.log_at("error")
    command.change(
        switches.Where(kubeconfig, data_dir),
        command.Deployment(deployment, namespace),
        lambda api, found, sets: decide.undo(api, found, sets, to_revision),
    )


@rollout.command(name="restart")
def rollout_restart(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
) -> None:
    """Replace all machines by new ones of the same template."""
    from kubewright.base.clock import SystemClock
    from kubewright.cli.rollout import command, decide

    switches.log_at("error")
    command.change(
        switches.Where(kubeconfig, data_dir),
        command.Deployment(deployment, namespace),
        lambda api, found, _sets: decide.restart(api, found, SystemClock().now()),
    )


@rollout.command(name="pause")
def rollout_pause(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
) -> None:
    """Stop a rollout where it is. Scaling goes on."""
    _set_paused(deployment, namespace, switches.Where(kubeconfig, data_dir), paused=True)


@rollout.command(name="resume")
def rollout_resume(
    deployment: switches.DeploymentName,
    *,
    namespace: switches.DeploymentNamespace = "default",
    kubeconfig: switches.OfDeployments = None,
    data_dir: switches.Served = None,
) -> None:
    """Let a rollout go on."""
    _set_paused(deployment, namespace, switches.Where(kubeconfig, data_dir), paused=False)


def _set_paused(deployment: str, namespace: str, where: switches.Where, *, paused: bool) -> None:
    from kubewright.cli.rollout import command, decide

    switches.log_at("error")
    command.change(
        where,
        command.Deployment(deployment, namespace),
        lambda _api, found, _sets: decide.pause(found, paused=paused),
    )
