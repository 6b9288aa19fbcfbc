"""The flags of a program: those of its template and those of the user together. Pure.

Theory.      Arguments are written ``--name=value``. A user's flag replaces that of the template, or is added
             at the end. A flag whose value in the template has a placeholder, or is a port of the container,
             is managed by the controllers, because it names an address, a certificate or a file, or a port
             that probes and Services name too: a user cannot change it.
Invariants.  The flags of the template keep their order. Arguments that are no flags stay as they are.
Source       nested.md C9, R-07.
Called by    ``render``.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubewright.controlplanes.rendering.variables import is_open


def managed(template: Iterable[str], ports: Iterable[int] = ()) -> frozenset[str]:
    """The names of the flags that the controllers manage.

    ``template``: arguments with placeholders; ``ports``: those of the container
    """
    fixed = {str(each) for each in ports}
    flags = [each for each in template if _is_flag(each)]
    return frozenset(_name(each) for each in flags if is_open(each) or each.partition("=")[2] in fixed)


def refused(managed_flags: frozenset[str], extra: Mapping[str, str], without: Iterable[str]) -> list[str]:
    """What is wrong with a user's flags, a sentence each."""
    return [
        f"the flag {name} is set by the controller, because it says where something is: remove it"
        for name in sorted({*extra, *without} & managed_flags)
    ]


def merged(template: Sequence[str], extra: Mapping[str, str], without: Iterable[str]) -> list[str]:
    """The arguments of the program."""
    dropped, rest = set(without), dict(extra)
    found = []
    for argument in template:
        name = _name(argument) if _is_flag(argument) else ""
        if name in dropped:
            continue
        found.append(f"--{name}={rest.pop(name)}" if name in rest else argument)
    return [*found, *(f"--{name}={value}" for name, value in sorted(rest.items()))]


def _is_flag(argument: str) -> bool:
    return argument.startswith("--") and len(argument) > len("--")


def _name(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]
