"""``--config FILE``: the switches of ``kubewright run`` from a file, for those who keep them in a ConfigMap.

Theory.      The file is a YAML mapping from the names of switches, without their dashes, to values. Its
             values replace the defaults, so a switch on the command line has precedence. It may hold every
             switch of the command line and nothing else, and its values are checked in the same way.
Called by    ``switches``, before any other switch is read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubewright.base.errors import InvalidInput
from kubewright.base.limits import CONFIG_BYTES
from kubewright.wire import goyaml


def load(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """What a file says, by the parameters of the command.

    Args:
        path: the file.
        names: the parameter of each switch that the command has, by the switch's name without dashes.

    Raises:
        InvalidInput: it cannot be read, is too large, or is no mapping; or names a switch that there is not.
    """
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"--config {path}: {error.strerror}") from None
    if len(data) > CONFIG_BYTES:
        raise InvalidInput(f"--config {path}: larger than {CONFIG_BYTES} bytes")
    return parsed(data, names, str(path))


def parsed(data: bytes, names: Mapping[str, str], source: str) -> dict[str, Any]:
    """As ``load``, from the content of the file."""
    try:
        documents = goyaml.load_all(data)
    except goyaml.Unreadable as error:
        raise InvalidInput(f"--config {source}: {error}") from None
    if len(documents) > 1:
        raise InvalidInput(f"--config {source}: it has more than one document")
    found = documents[0] if documents else None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidInput(f"--config {source}: it is no mapping from switches to values")
    for name, value in found.items():
        if name not in names:
            raise InvalidInput(f"--config {source}: there is no switch --{name}")
        if any(not isinstance(each, _SCALARS) for each in (value if isinstance(value, list) else [value])):
            raise InvalidInput(f"--config {source}: {name} wants a text, a number, true or false, or a list")
    return {names[name]: _plain(value) for name, value in found.items()}


_SCALARS = (str, int, float)


def _plain(value: Any) -> Any:
    """A value as the command line would give it; booleans and lists as they are."""
    if isinstance(value, bool):
        return value
    return [str(each) for each in value] if isinstance(value, list) else str(value)
