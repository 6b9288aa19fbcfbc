"""The classes of the integration test: those that a user gives, or copies of one that the cluster has. Pure.

Theory.      Outside of a Gardener seed a file has the class, whose name and Secret are agreed on, because
             Secrets that other tools put there are found by that name. In a seed a class exists already, made
             by Gardener: it is copied with a merge patch, which marks what the test makes.
Source       ITS-05, ITS-06.
Called by    ``furnish``.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MachineClass
from kubewright.base.errors import InvalidInput
from kubewright.wire.goyaml import Unreadable, load_all
from kubewright.wire.gvk import Key
from kubewright.wire.patch import apply_merge

CLASS_V1, CLASS_V2 = "test-mc-v1", "test-mc-v2"
SECRET_NAME = "test-mc-secret"
LABELS: Mapping[str, str] = {"test-label": "test-label"}
"""On all that the test makes."""
SELECTOR = ",".join(f"{name}={value}" for name, value in LABELS.items())

TAG = "mcm-integration-test"
"""The tag of what a copied class makes, where no patch file says another."""

_CLUSTER_TAGS = ("kubernetes.io/cluster/", "kubernetes-io-cluster-")
"""How a tag names the cluster; the second where tags are words without a value."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClassFile:
    """What a file has: the class, and Secrets that it may have beside it."""

    machine_class: Object
    secrets: tuple[Object, ...] = ()


def read_file(text: str, where: str) -> ClassFile:
    """The class in a manifest, in YAML or JSON.

    Raises:
        InvalidInput: it is not one class, with Secrets at most beside it.
    """
    try:
        documents = [each for each in load_all(text) if each is not None]
    except Unreadable as error:
        raise InvalidInput(f"{where}: {error}") from None
    kinds = [each.get("kind") if isinstance(each, dict) else None for each in documents]
    if strange := [each for each in kinds if each not in ("MachineClass", "Secret")]:
        raise InvalidInput(f"{where}: {strange[0] or 'a document without kind'} is no MachineClass or Secret")
    if kinds.count("MachineClass") != 1:
        raise InvalidInput(
            f"{where}: one MachineClass is needed, and there are {kinds.count('MachineClass')}"
        )
    secrets = tuple(each for each in documents if each["kind"] == "Secret")
    if any(
        not isinstance(each.get("metadata"), dict) or not each["metadata"].get("name") for each in documents
    ):
        raise InvalidInput(f"{where}: an object has no metadata.name")
    return ClassFile(documents[kinds.index("MachineClass")], secrets)


def checked(given: Object, name: str, where: str) -> MachineClass:
    """The class of a file, if it is of the name and with the Secret that are agreed on.

    Raises:
        InvalidInput: it is not.
    """
    if given["metadata"]["name"] != name:
        raise InvalidInput(
            f"{where}: name of provided machine class is not `{name}`. Please change the name and run again"
        )
    found = MACHINE_CLASS.from_plain(deepcopy(dict(given)))
    if (secret := secret_named(found)) != SECRET_NAME:
        raise InvalidInput(
            f"{where}: secretRef.name is {secret!r} and should be {SECRET_NAME!r}. "
            "Please change the name and run again"
        )
    return found


def secret_named(found: MachineClass) -> str:
    """The name of the Secret of a class: where it stands now, or where providerSpec once had it."""
    if found.secret_ref is not None and found.secret_ref.name:
        return found.secret_ref.name
    below: Any = found.provider_spec.get("secretRef")
    return str(below.get("name", "")) if isinstance(below, Mapping) else ""


def secret_keys(found: MachineClass) -> list[Key]:
    """Where the Secrets of a class are; later ones override earlier ones."""
    refs = (found.secret_ref, found.credentials_secret_ref)
    keys = [Key(each.namespace or found.metadata.namespace, each.name) for each in refs if each is not None]
    return keys or [Key(found.metadata.namespace, secret_named(found))]


def secret_place(given: Object, of: MachineClass, namespace: str) -> str:
    """Where a Secret of a file goes: where it says, where its class looks for it, or beside the class."""
    ref = of.secret_ref
    return str(given["metadata"].get("namespace") or "") or (ref.namespace if ref else "") or namespace


def placed(given: Object, namespace: str) -> dict[str, Any]:
    """An object of a file as it is created: in the namespace, and with the labels of the test."""
    body = deepcopy(dict(given))
    meta = body["metadata"]
    labels = {**(meta.get("labels") or {}), **LABELS}
    body["metadata"] = {
        "name": meta["name"],
        "namespace": namespace,
        "labels": labels,
        **({"annotations": meta["annotations"]} if meta.get("annotations") else {}),
    }
    return body


def copied(found: Object, name: str, patch: Object | None = None) -> dict[str, Any]:
    """A new class like another, after a merge patch. The API server's fields are not taken over."""
    body = {key: deepcopy(value) for key, value in found.items() if key not in ("metadata", "status")}
    meta = found["metadata"]
    kept = {key: deepcopy(meta[key]) for key in ("namespace", "labels", "annotations") if meta.get(key)}
    body["metadata"] = kept
    patched = apply_merge(body, dict(patch)) if patch else body
    patched["metadata"] = {
        **patched.get("metadata", {}),
        "name": name,
        "namespace": meta.get("namespace", ""),
        "labels": {**(patched.get("metadata", {}).get("labels") or {}), **LABELS},
    }
    return dict(patched)


def marking(found: Object, *, tags_are_strings: bool) -> dict[str, Any]:
    """The patch by which a copied class marks what it makes, where no file says another."""
    tags = (found.get("providerSpec") or {}).get("tags")
    if tags_are_strings or isinstance(tags, list):
        words = [each for each in tags or () if each != TAG]
        return {"providerSpec": {"tags": [*words, TAG]}}
    return {"providerSpec": {"tags": {TAG: "true"}}}


def model_of(classes: Sequence[Object], namespace: str) -> Object:
    """The class to copy in a seed: the first by name that is not the test's own.

    Raises:
        InvalidInput: there is none.
    """
    others = [each for each in classes if each["metadata"]["name"] not in (CLASS_V1, CLASS_V2)]
    if not others:
        raise InvalidInput(
            f"namespace {namespace} of the control cluster has no MachineClass that could be copied; in a "
            "seed CONTROL_CLUSTER_NAMESPACE is the namespace of a shoot that has workers"
        )
    return min(others, key=lambda each: str(each["metadata"]["name"]))


def cluster_of(tags: Any) -> str:
    """The cluster that the tags of a class name; empty if they name none."""
    words: Iterable[Any] = tags if isinstance(tags, Mapping | list | tuple) else ()
    for word in words:
        for start in _CLUSTER_TAGS:
            if isinstance(word, str) and word.startswith(start) and len(word) > len(start):
                return word.removeprefix(start)
    return ""
