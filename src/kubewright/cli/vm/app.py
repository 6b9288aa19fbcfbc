"""The commands of ``kubewright vm`` and ``kubewright class``, and their switches.

Called by    ``cli.app``, which must stay quick to import: what a command needs is imported when it is called.
"""

from pathlib import Path
from typing import Annotated

import typer

from kubewright.cli.switches import path_of
from kubewright.cli.vm.given import DriverName as DriverOfClass
from kubewright.cli.vm.given import ForClass, ForDriver, gathered, vm_id

vm = typer.Typer(
    help="Make and delete single VMs with a driver, without a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

classes = typer.Typer(
    help="Look at MachineClasses with their driver, without a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ClassFile = Annotated[
    Path,
    typer.Option(
        "-f",
        "--class",
        help="The file of the MachineClass; -: from stdin.",
        metavar="FILE",
        parser=path_of("--class"),
    ),
]
Name = Annotated[
    str, typer.Argument(help="Of the machine that the VM is for.", metavar="NAME", show_default=False)
]
MachineId = Annotated[str | None, vm_id("--machine-id", "This VM, by its provider id, a machine's too.")]
LastApplied = Annotated[
    Path | None,
    typer.Option(
        "--last-applied",
        help="The file of the class as the VM had it last, or of its providerSpec.",
        metavar="FILE",
        parser=path_of("--last-applied"),
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
DriverName = Annotated[
    str, typer.Option("--driver", help="An installed driver.", metavar="NAME", show_default=False)
]
VolumeFiles = Annotated[
    list[Path],
    typer.Argument(
        help="Files with PersistentVolumes, as kubectl get pv -o yaml prints them.",
        metavar="FILE...",
        show_default=False,
    ),
]


@vm.command()
@gathered(ForClass)
def create(name: Name, *, given: ForClass, dry_run: DryRun = False) -> None:
    """Make a VM of a class, or find the one that was made by this name.

    Prints its id and the name that its node will have. No controller deletes it: only `vm delete` does.
    """
    from kubewright.cli.vm import command

    (command.check if dry_run else command.create)(given.asked(name))


@vm.command()
@gathered(ForClass)
def initialize(name: Name, *, given: ForClass, machine_id: MachineId = None) -> None:
    """Finish what a driver cannot say in a creation. May be repeated."""
    from kubewright.cli.vm import command

    command.initialize(given.asked(name, machine_id))


@vm.command()
@gathered(ForClass)
def update(
    name: Name,
    *,
    given: ForClass,
    last_applied: LastApplied = None,
    machine_id: MachineId = None,
    dry_run: DryRun = False,
) -> None:
    """Change a VM while it runs: what of its class the driver can update, such as tags.

    Without --last-applied nothing is taken off the VM, because what it had from its class is not known.
    """
    from kubewright.cli.vm import command
    from kubewright.cli.vm.files import read_last_applied

    last = None if last_applied is None else read_last_applied(last_applied)
    command.update(given.asked(name, machine_id), last, dry_run=dry_run)


@vm.command()
@gathered(ForClass)
def status(name: Name, *, given: ForClass, machine_id: MachineId = None) -> None:
    """Show a VM. Ends with 1 if there is none."""
    from kubewright.cli.vm import command

    command.status(given.asked(name, machine_id))


@vm.command(name="list")
@gathered(ForClass)
def list_vms(*, given: ForClass) -> None:
    """Show all VMs with the tags of a class, those of machines too."""
    from kubewright.cli.vm import command

    command.list_vms(given.asked(""))


@vm.command()
@gathered(ForClass)
def delete(name: Name, *, given: ForClass, machine_id: MachineId = None, dry_run: DryRun = False) -> None:
    """Delete a VM, and return when it is gone.

    Without --machine-id that is the one that `vm create` has made by this name, and never a controller's.
    """
    from kubewright.cli.vm import command

    (command.would_delete if dry_run else command.delete)(given.asked(name, machine_id))


@vm.command()
@gathered(ForDriver)
def volumes(files: VolumeFiles, *, given: ForDriver, driver: DriverName) -> None:
    """Print a cloud's ids of volumes. Those of other clouds are left out."""
    from kubewright.cli.vm import command
    from kubewright.cli.vm.files import read_volumes

    command.volumes(given.asked_of(driver), read_volumes(files))


@classes.callback()
def of_classes() -> None:
    """The commands of `kubewright class`: there is one, and more may come."""


@classes.command(name="hash")
@gathered(ForDriver)
def class_hash(*, given: ForDriver, class_file: ClassFile, driver: DriverOfClass = "") -> None:
    """Print a hash of what only another VM can have of a class, and a name with it.

    Two classes with the same hash differ in what their driver changes on VMs that run. Name classes by it:
    then a change of the rest is a class of another name, which rolls machines.
    """
    from kubewright.cli.vm import command

    command.class_hash(given.asked_of_class(class_file, driver))
