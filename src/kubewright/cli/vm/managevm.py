"""``managevm``: one VM of one class, by the switches of MCM's tool of this name.

Theory.      ``--machineid`` selects a deletion; without it a VM is made. The class is a MachineClass whatever
             ``--classkind`` says, and that names the driver, as it did when each cloud had a kind of its own.
Source       MVM-01 to MVM-08.
Called by    the console script ``managevm``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kubewright.cli import switches
from kubewright.cli.switches import ended
from kubewright.cli.vm.given import ForDriver, gathered, vm_id

PROGRAM = "managevm"

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SecretFile = Annotated[
    Path,
    typer.Option(
        "--secret", help="The file of the Secret.", metavar="PATH", parser=switches.path_of("--secret")
    ),
]
ClassFile = Annotated[
    Path,
    typer.Option(
        "--machineclass",
        help="The file of the MachineClass.",
        metavar="PATH",
        parser=switches.path_of("--machineclass"),
    ),
]
ClassKind = Annotated[
    str,
    typer.Option(
        "--classkind",
        help="The cloud: an installed driver, or a kind of class of MCM's, such as aws or AWSMachineClass. "
        "MachineClass: as the class's provider says.",
        metavar="KIND",
    ),
]
MachineName = Annotated[
    str, typer.Option("--machinename", help="Of the machine that the VM is for.", metavar="NAME")
]
MachineId = Annotated[
    str | None, vm_id("--machineid", "Delete this VM, by its provider id; without it one is made.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@app.command()
@gathered(ForDriver)
def manage(
    *,
    given: ForDriver,
    secret: SecretFile,
    machineclass: ClassFile,
    machinename: MachineName,
    classkind: ClassKind = "MachineClass",
    machineid: MachineId = None,
    dry_run: DryRun = False,
) -> None:
    """Make a VM of a class with its driver, or delete one; without a cluster.

    The same as `kubewright vm create` and `kubewright vm delete`, by the switches of MCM's tool.
    """
    from kubewright.cli.vm import command
    from kubewright.cli.vm.files import read_class, read_secrets
    from kubewright.cli.vm.requests import driver_of_kind, prepared
    from kubewright.driver import registry

    found = read_class(machineclass, "default")
    driver = driver_of_kind(classkind, found, registry.names())
    seen = prepared(found, read_secrets([secret], found.metadata.namespace))
    for each in seen.notes:
        command.note(each)
    asked = given.asked_of(
        driver,
        request=seen.request,
        name=machinename,
        provider_id=machineid or "",
        given=["--class", str(machineclass), "--secret", str(secret)],
    )
    if machineid is None:
        (command.check if dry_run else command.create)(asked)
    else:
        (command.would_delete if dry_run else command.delete)(asked)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script; ``arguments`` are by default those of the command line."""
    ended(lambda: app(arguments, prog_name=PROGRAM), PROGRAM)
