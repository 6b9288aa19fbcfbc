"""Read what would be applied to a cluster: a class, its Secrets, volumes; from files of YAML or JSON.

Theory.      A file that an API server would refuse, or whose misspelt field it would drop, is refused here in
             one sentence that names file and field, since what this tool has tried should work on a cluster.
Invariants.  Files are bounded, as what a server takes is. No sentence has a value of a Secret.
Called by    ``app``; tests.
"""

import base64
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.kinds import Kind, Undecodable
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MachineClass
from kubewright.api.storage import PV
from kubewright.base.limits import BODY_BYTES
from kubewright.cli.switches import Unusable
from kubewright.cli.vm.requests import OLD_KINDS
from kubewright.driver.contract import VolumeSpec
from kubewright.wire import goyaml

T = TypeVar("T")
JsonObject = dict[str, Any]

CLASS_FIELDS = frozenset({"apiVersion", "kind", *(each.encode_name for each in structs.fields(MachineClass))})
SECRET_FIELDS = frozenset(
    {"apiVersion", "kind", "stringData", *(each.encode_name for each in structs.fields(Secret))}
)


def read_class(path: Path, namespace: str) -> MachineClass:
    """The MachineClass of a file, which may have other kinds beside it; ``namespace``: where it is if the
    file does not say it.

    Raises:
        Unusable: the file cannot be read, or has something else.
    """
    tree = _only_object(path, MACHINE_CLASS.resource.kind)
    if tree.get("kind") in OLD_KINDS:
        raise Unusable(
            f"{path}: kind: {tree['kind']} is a kind of former versions; write a MachineClass, with the name "
            "of the driver as its provider and the former spec as its providerSpec"
        )
    found = _typed(path, tree, MACHINE_CLASS, CLASS_FIELDS)
    if not found.provider_spec:
        raise Unusable(f"{path}: providerSpec: it is missing or empty")
    return structs.replace(found, metadata=_placed(path, found.metadata, namespace))


def read_last_applied(path: Path) -> Mapping[str, Any]:
    """The providerSpec that a VM had last: that of a MachineClass, or what the file has, as the annotation of
    a Machine says it.

    Raises:
        Unusable: as ``read_class``.
    """
    tree = _only_object(path, MACHINE_CLASS.resource.kind)
    if "kind" in tree or "providerSpec" in tree:
        return read_class(path, "default").provider_spec
    return tree


def read_secrets(paths: Iterable[Path], namespace: str) -> list[Secret]:
    """The Secret of each file, as ``read_class``; ``namespace`` as for ``read_class``.

    Raises:
        Unusable: as ``read_class``.
    """
    return [_secret(path, namespace) for path in paths]


def read_volumes(paths: Iterable[Path]) -> list[VolumeSpec]:
    """The PersistentVolumes of files, each of which has one or a list of them, as kubectl prints it.

    Raises:
        Unusable: as ``read_class``.
    """
    found = []
    for path in paths:
        tree = _only_object(path)
        items = tree.get("items") if tree.get("kind") in ("List", "PersistentVolumeList") else [tree]
        if not isinstance(items, list):
            raise Unusable(f"{path}: items: it is no list")
        for number, item in enumerate(items):
            where = path if items == [tree] else Path(f"{path}: items[{number}]")
            if not isinstance(item, dict):
                raise Unusable(f"{where}: it is no object")
            volume = _typed(where, item, PV)
            found.append(VolumeSpec(_placed(where, volume.metadata, "").name, volume.spec))
    return found


def _secret(path: Path, namespace: str) -> Secret:
    tree = _only_object(path, SECRET.resource.kind)
    texts = tree.get("stringData") or {}
    if not isinstance(texts, dict):
        raise Unusable(f"{path}: stringData: it is no mapping from keys to texts")
    for key, text in texts.items():
        if not isinstance(text, str):
            raise Unusable(f"{path}: stringData.{key}: it is no text; put it into quotes")
    if isinstance(data := tree.get("data"), dict):
        tree = {**tree, "data": {key: _base64(path, key, each) for key, each in data.items()}}
    found = _typed(path, tree, SECRET, SECRET_FIELDS)
    data = {**found.data, **{key: text.encode() for key, text in texts.items()}}
    return structs.replace(found, metadata=_placed(path, found.metadata, namespace), data=data)


def _base64(path: Path, key: str, value: object) -> str:
    """A value as it is, but in one line: Go's decoder does not mind where it is folded."""
    try:
        if value is None or isinstance(value, str):
            line = (value or "").replace("\n", "").replace("\r", "")
            base64.b64decode(line, validate=True)
            return line
    except ValueError:
        pass
    raise Unusable(f"{path}: data.{key}: it is no base64; texts as they are belong into stringData")


def _placed(path: Path, meta: Any, namespace: str) -> Any:
    if not meta.name:
        raise Unusable(f"{path}: metadata.name: it is missing")
    return structs.replace(meta, namespace=meta.namespace or namespace)


def _only_object(path: Path, kind: str = "") -> JsonObject:
    """The object of a file that has one; of several the only one of this kind."""
    try:
        documents = [each for each in goyaml.load_all(_content(path), unique=True) if each is not None]
    except goyaml.Unreadable as error:
        raise Unusable(f"{path}: {error}") from None
    if len(documents) > 1:
        of_kind = [each for each in documents if kind and isinstance(each, dict) and each.get("kind") == kind]
        documents = of_kind if len(of_kind) == 1 else documents
    if len(documents) != 1:
        raise Unusable(f"{path}: it has {len(documents) or 'no'} objects, where one is wanted")
    (found,) = documents
    if not isinstance(found, dict):
        raise Unusable(f"{path}: it is no object of Kubernetes, but {_described(found)}")
    return found


STDIN = Path("-")
"""As in kubectl: the file is what is written to this program."""


def _content(path: Path) -> bytes:
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(BODY_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(BODY_BYTES + 1)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None
    if len(data) > BODY_BYTES:
        raise Unusable(f"{path}: it is larger than {BODY_BYTES} bytes, which is what a server takes")
    return data


def _described(value: object) -> str:
    return "a list" if isinstance(value, Sequence) and not isinstance(value, str) else "a single value"


def _typed(path: Path, tree: Mapping[str, Any], kind: Kind[T], fields: Iterable[str] = ()) -> T:
    """The object as its kind. If ``fields`` are given, it may have no others."""
    resource = kind.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if (given := tree.get(field)) != wanted:
            problem = f"{given} is not" if isinstance(given, str) and given else "it is missing; write"
            raise Unusable(f"{path}: {field}: {problem} {wanted}")
    if fields and (unknown := [name for name in tree if name not in fields]):
        raise Unusable(f"{path}: {unknown[0]}: {resource.kind} has no such field")
    try:
        return kind.from_plain(dict(tree))
    except Undecodable as error:
        raise Unusable(f"{path}: {error.path + ': ' if error.path else ''}{error.reason}") from None
