"""``kubewright driver new NAME``: a project of a driver that works at once, for an author to edit.

Theory.      The blueprint is a small driver on a cloud of files, so its tests, the conformance suite and
             ``kubewright vm`` pass before its author has written a line, and an author replaces one piece
             after the other with something that passes. Its files lie in ``blueprint/`` as they will be, with
             places for names: ``@name@`` (``my-cloud``), ``@package@`` (``my_cloud``) and ``@version@``
             (Kubewright's). Their suffix ``.in`` keeps tools from taking them for our code.
Invariants.  A project is there as a whole or not at all, and no file that exists is touched.
Source       KIT-01 to KIT-03.
Called by    ``cli.driver``.
"""

import keyword
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import packages_distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from kubewright import __version__
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import Unusable, path_of

NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""A DNS label, with room for what names of objects add to it; a Python package with ``_`` for ``-``."""
PLACE = re.compile(r"@(name|package|version)@")
SUFFIX = ".in"
DOTTED = {"gitignore": ".gitignore"}
"""Names that would mean something in our own tree."""
OURS = frozenset({"kubewright", "test", "tests"})
"""Names that packages of every project have, or of every Python."""


def new(
    name: Annotated[
        str,
        typer.Argument(
            help="Of the driver: what a class says as its provider.", metavar="NAME", show_default=False
        ),
    ],
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where to write it; there must be nothing yet. Default: NAME, here.",
            metavar="DIR",
            parser=path_of("--folder"),
        ),
    ] = None,
) -> None:
    """Write the project of a new driver, which works at once: its tests, a class, an image."""
    if problem := name_problem(name, _own_drivers(), packages_distributions()):
        raise Unusable(f"driver {name!r}: {problem}")
    into = folder or Path(name)
    write(into, project(name))
    print(f"{into}: a driver that works, on a cloud of files; its README says what to edit. Try:")
    print(f"  cd {shlex.quote(str(into))} && make test")


def name_problem(
    name: str, drivers: Collection[str], packages: Mapping[str, Collection[str]] | None = None
) -> str:
    """What is wrong with the name of a driver, in a clause; empty if nothing is.

    ``drivers``: the others that exist. ``packages``: what is installed, and by which distributions: a package
    of its name in the project would hide one that Kubewright needs.
    """
    if not NAME.fullmatch(name):
        return (
            "its name has to be of lower-case letters, digits and '-', begin with a letter, not end with '-' "
            "and have no more than 40 characters"
        )
    package = package_of(name)
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        return f"{package} is a word of Python's, which no package can have as its name"
    of = (packages or {}).get(package, ())
    others = [each for each in of if _distribution(each) != _distribution(f"kubewright-driver-{name}")]
    if package in sys.stdlib_module_names or name in (*OURS, *drivers) or others:
        return f"{package} is the name of something that is there already; choose another"
    return ""


def _distribution(name: str) -> str:
    """The name of a distribution as package indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


def package_of(name: str) -> str:
    """The name of its Python package."""
    return name.replace("-", "_")


def project(name: str) -> Mapping[str, str]:
    """The files of a project by their paths."""
    values = {
        "name": name,
        "package": package_of(name),
        "version": __version__,
    }
    root = files("kubewright.cli.driver").joinpath("blueprint")
    return {
        _path(parts, values["package"]): PLACE.sub(lambda found: values[found[1]], text)
        for parts, text in _templates(root)
    }


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write a project, whole.

    Raises:
        InvalidInput: there is something already, or the folder cannot be written.
    """
    if folder.exists() or folder.is_symlink():
        raise InvalidInput(f"{folder} exists already; name another folder with --folder DIR")
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for path, text in texts.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                (part / path).write_text(text)
            part.chmod(0o755)  # a temporary folder is its owner's alone
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    except OSError as error:
        raise InvalidInput(f"cannot write {folder}: {error.strerror}") from None


def _own_drivers() -> list[str]:
    """Kubewright's own drivers. Those of others do not count: an author may write a project anew."""
    from kubewright.driver.registry import installed

    return [each.name for each in installed() if each.dist is not None and each.dist.name == "kubewright"]


def _templates(folder: Traversable, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The parts of the path, and the text, of each file of the blueprint."""
    for each in sorted(folder.iterdir(), key=lambda found: found.name):
        if each.is_dir():
            yield from _templates(each, (*above, each.name))
        elif each.name.endswith(SUFFIX):
            yield (*above, each.name.removesuffix(SUFFIX)), each.read_text()


def _path(parts: tuple[str, ...], package: str) -> str:
    *folders, name = ({"PACKAGE": package}.get(part, part) for part in parts)
    return "/".join([*folders, DOTTED.get(name, name)])
