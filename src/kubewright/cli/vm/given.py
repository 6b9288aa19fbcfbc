"""The switches that the commands of ``kubewright vm`` share, gathered into one value each.

Theory.      A command has ten switches, of which it looks at two; the others say which class, which driver
             and how. Those are the fields of a dataclass, and ``gathered`` gives a command its value.
Called by    ``app``, ``managevm``; quick to import, as these are.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from kubewright.base.errors import InvalidInput
from kubewright.cli import switches

if TYPE_CHECKING:
    from kubewright.cli.vm.calls import Chosen
    from kubewright.cli.vm.command import Asked

FOLDER = switches.DATA_DIR / "vm"
"""Where drivers keep the VMs of these commands when no folder is named: not with those of ``up``."""


def _file(switch: str, told: str) -> Any:
    return typer.Option(switch, help=told, metavar="FILE", parser=switches.path_of(switch))


def vm_id(switch: str, told: str) -> Any:
    """An option that names a VM. An empty value comes from a variable that is not set, and means no VM; where
    it was not quoted, the next switch, ``--dry-run`` say, is the value."""

    def read(text: str) -> str:
        if not text.strip():
            raise switches.Unusable(f"{switch} is empty; name a VM, or leave the switch out")
        if text.startswith("-"):
            raise switches.Unusable(
                f"{switch} is {text}, which is a switch; name a VM, or leave {switch} out"
            )
        return text

    return typer.Option(switch, help=told, metavar="ID", parser=read)


ClassFile = Annotated[Path, _file("--class", "The file of the MachineClass; -: from stdin.")]
SecretFiles = Annotated[
    list[Path] | None, _file("--secret", "The file of a Secret that the class names; may be given again.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "-n", "--namespace", help="Where class and Secret are, if their files do not say it.", metavar="NS"
    ),
]
DriverName = Annotated[
    str, typer.Option("--driver", help="An installed driver; default: the class's provider.", metavar="NAME")
]
DriverOption = Annotated[
    list[str] | None,
    typer.Option(
        "--driver-option", help="NAME=VALUE for the driver; may be given again.", metavar="NAME=VALUE"
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        help="Where a driver such as sim or qemu keeps its VMs.",
        metavar="DIR",
        parser=switches.path_of("--data-dir"),
    ),
]
Timeout = Annotated[
    str,
    typer.Option(help="For how long to try again what may succeed in a moment; 0: once.", metavar="DURATION"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForDriver:
    """How a driver is asked."""

    driver_option: DriverOption = None
    data_dir: Folder = FOLDER
    timeout: Timeout = "5m"
    output: switches.Output = ""
    log_level: Annotated[
        str, typer.Option("--log-level", help="debug, info, warning or error.", metavar="LEVEL")
    ] = "error"

    def asked_of(self, driver: str, **more: Any) -> "Asked":
        """What a command is about; ``more``: fields of ``Asked``.

        Raises:
            Unusable: a switch has no value that can be understood.
        """
        from kubewright.cli.asking import refuse_unknown
        from kubewright.cli.vm.command import Asked

        try:
            switches.log_at(self.log_level)
            refuse_unknown(self.output)
            seconds = switches.duration("--timeout", self.timeout).total_seconds()
            return Asked(self._chosen(driver), seconds=seconds, output=self.output, **more)
        except InvalidInput as error:
            raise switches.Unusable(str(error)) from None

    def asked_of_class(self, path: Path, driver: str) -> "Asked":
        """What a command is about that looks at a class, and asks no cloud.

        Raises:
            Unusable: the file has something else; and as ``asked_of``.
            InvalidInput: the driver cannot be asked from here.
        """
        from kubewright.cli.vm.files import read_class
        from kubewright.cli.vm.requests import driver_of_class
        from kubewright.driver import registry
        from kubewright.driver.contract import ClassRequest

        found = read_class(path, "default")
        chosen = driver_of_class(driver, found, registry.names())
        return self.asked_of(chosen, request=ClassRequest(found))

    def _chosen(self, driver: str) -> "Chosen":
        from kubewright.cli.switches import driver_options
        from kubewright.cli.vm.calls import Chosen

        given = bool(self.driver_option) or self.data_dir != FOLDER
        return Chosen(driver, self.data_dir, driver_options(self.driver_option or (), driver), given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForClass(ForDriver):
    """Which class a VM has, and what its Secrets hold."""

    class_file: ClassFile
    secret: SecretFiles = None
    namespace: Namespace = "default"
    driver: DriverName = ""

    def asked(self, name: str, machine_id: str | None = None) -> "Asked":
        """What a command is about that makes, shows or deletes a VM.

        Raises:
            Unusable: a file has something else than it should; and as ``asked_of``.
            InvalidInput: the driver cannot be asked from here.
        """
        from kubewright.cli.vm import command
        from kubewright.cli.vm.files import read_class, read_secrets
        from kubewright.cli.vm.requests import driver_of_class, prepared
        from kubewright.driver import registry

        found = read_class(self.class_file, self.namespace)
        paths = self.secret or ()
        seen = prepared(found, read_secrets(paths, found.metadata.namespace))
        for each in seen.notes:
            command.note(each)
        driver = driver_of_class(self.driver, found, registry.names())
        words = ["--class", str(self.class_file), *(f"--secret={each}" for each in paths)]
        vm = machine_id or ""
        return self.asked_of(driver, request=seen.request, name=name, provider_id=vm, given=words)


def gathered(kind: type[ForDriver]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with a parameter for each field of ``kind``, which gets the value of all of them as its
    ``given``."""
    hints = get_type_hints(kind, include_extras=True)
    mine = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)
    declared = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in mine
    ]

    names = [each.name for each in mine]

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**typed: Any) -> None:
            command(given=kind(**{name: typed.pop(name) for name in names}), **typed)

        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.name != "given"]
        parameters = sorted([*own, *declared], key=lambda each: each.kind)
        called.__dict__["__signature__"] = signature.replace(parameters=parameters)  # what typer reads
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return declare
