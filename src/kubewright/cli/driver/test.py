"""The switches of ``kubewright driver test``: each has the variable that MCM's integration test has for it.

Source       ITS-01 to ITS-10.
Called by    ``cli.driver``.
"""

from pathlib import Path
from typing import Annotated

import typer

from kubewright.cli import switches
from kubewright.cli.switches import path_of


def _file(switch: str, variable: str, help_: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        switch, envvar=variable, help=help_, metavar="PATH", parser=path_of(switch), show_envvar=True
    )
    return option


ControlKubeconfig = Annotated[
    Path | None, _file("--control-kubeconfig", "CONTROL_KUBECONFIG", "Of the cluster that has the machines.")
]
TargetKubeconfig = Annotated[
    Path | None,
    _file("--target-kubeconfig", "TARGET_KUBECONFIG", "Of the one that has their nodes; default: the same."),
]
Namespace = Annotated[
    str,
    typer.Option(
        "-n",
        "--namespace",
        envvar=["CONTROL_CLUSTER_NAMESPACE", "CONTROL_NAMESPACE"],
        help="Where the machines are made, in the control cluster.",
        metavar="NS",
    ),
]
Seed = Annotated[
    bool,
    typer.Option(
        "--control-cluster-seed/--no-control-cluster-seed",
        envvar="IS_CONTROL_CLUSTER_SEED",
        help="The control cluster is a Gardener seed: a class that is there is copied.",
    ),
]
TargetClusterName = Annotated[
    str,
    typer.Option(
        envvar="TARGET_CLUSTER_NAME",
        help="For the resource tracker; default: what the tags of the class say. Azure: the ResourceGroup.",
        metavar="NAME",
    ),
]
ClassV1 = Annotated[
    Path | None,
    _file("--machineclass-v1", "MACHINECLASS_V1", "File with MachineClass test-mc-v1 (not in a seed)."),
]
ClassV2 = Annotated[
    Path | None,
    _file("--machineclass-v2", "MACHINECLASS_V2", "File with MachineClass test-mc-v2; default: a copy."),
]
ClassPatch = Annotated[
    Path | None,
    _file(
        "--machineclass-patch",
        "MACHINECLASS_PATCH",
        "Merge patch for the copies in a seed; default: .ci/controllers-test/machine-class-patch.json "
        "if it is there, else a tag.",
    ),
]
ManagerDeployment = Annotated[
    str,
    typer.Option(
        envvar="MACHINE_CONTROLLER_MANAGER_DEPLOYMENT_NAME",
        help="The Deployment of a seed's manager, which rests while --start-manager tests another.",
        metavar="NAME",
    ),
]
PreserveCrds = Annotated[
    bool,
    typer.Option(
        "--preserve-crds/--no-preserve-crds",
        envvar="PRESERVE_CRD_AT_END",
        help="Let the CRDs stay that the test has created.",
    ),
]
TagsAreStrings = Annotated[
    bool,
    typer.Option(
        "--tags-are-strings/--no-tags-are-strings",
        envvar="TAGS_ARE_STRINGS",
        help="Tags of this provider are words without a value, as on GCP.",
    ),
]
StartManager = Annotated[
    bool,
    typer.Option(
        "--start-manager",
        help="Start both halves of the manager here, with --driver, and end them; "
        "default: test the manager that runs already.",
    ),
]
DriverName = Annotated[
    str, typer.Option(help="The driver: its list of VMs or its tracker, and its own cases.", metavar="NAME")
]
RunSwitch = Annotated[
    list[str] | None,
    typer.Option(
        help="A switch for `kubewright run` with --start-manager, such as --run-switch=--log-level=debug; "
        "may be given again.",
        metavar="SWITCH",
    ),
]
CaseFile = Annotated[
    list[Path] | None,
    typer.Option("--cases", help="A Python file with CASES and TRACKER; may be given again.", metavar="FILE"),
]
Logs = Annotated[
    Path, typer.Option(help="Where mcm_process.log and mc_process.log go.", metavar="DIR", envvar="LOGS_DIR")
]
Junit = Annotated[
    Path | None,
    typer.Option(help="Write a report as JUnit's XML.", metavar="FILE", parser=path_of("--junit")),
]
Poll = Annotated[str, typer.Option(help="From one look to the next.", metavar="DURATION")]
Timeout = Annotated[str, typer.Option(help="How long each wait of a case may take.", metavar="DURATION")]
CleanUp = Annotated[str, typer.Option(help="How long the clean-up may take.", metavar="DURATION")]


LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.", metavar="LEVEL")]


def driver_test(  # noqa: PLR0913 -- each is a switch of the command line
    context: typer.Context,
    *,
    control_kubeconfig: ControlKubeconfig = None,
    target_kubeconfig: TargetKubeconfig = None,
    namespace: Namespace = "default",
    control_cluster_seed: Seed = False,
    target_cluster_name: TargetClusterName = "",
    machineclass_v1: ClassV1 = None,
    machineclass_v2: ClassV2 = None,
    machineclass_patch: ClassPatch = None,
    mcm_deployment: ManagerDeployment = "machine-controller-manager",
    preserve_crds: PreserveCrds = False,
    tags_are_strings: TagsAreStrings = False,
    start_manager: StartManager = False,
    driver: DriverName = "",
    driver_option: switches.DriverOption = None,
    run_switch: RunSwitch = None,
    cases: CaseFile = None,
    logs: Logs = Path(".ci/controllers-test/logs"),
    junit: Junit = None,
    poll_interval: Poll = "2s",
    timeout: Timeout = "300s",
    cleanup_timeout: CleanUp = "900s",
    log_level: LogLevel = "error",
) -> None:
    """Run MCM's integration test: ten cases on two clusters that exist already.

    Machines and deployments are made, scaled, rolled and deleted, and nodes are counted. What it made it
    deletes, also after Ctrl-C. Ends with 0 if all is well, 1 if not, 2 if a setting is missing.
    """
    from kubewright.cli.driver import trial

    switches.log_at(log_level)
    raise typer.Exit(trial.test(trial.typed(context.params)))
