"""What drivers may fetch: the classes and secrets of the operations that were asked of them.

Theory.      An operation names a class and a revision; the driver fetches class and secret by them, has a
             second for it, and may keep both for as long as the revision is the same. Both came with the
             request of the controller, which had read them from its caches: so they are answered from here,
             and the API server need not be there. The secret of a machine has its own ``userData``, with a
             token of its own: then the machine has a revision of its own, too. A driver finds the secret by
             the name in the class. A class of an API that has its credentials elsewhere gets a name that
             means the same.
Invariants.  The revision is a positive int32, never 0, and follows from class and secret alone: the next
             process has the same. What is kept is bounded in number and bytes; the oldest goes first. No
             driver gets a secret that was not needed for an operation, and no repr shows one.
Source       mcm.md §11.3 (4).
Called by    ``dispatch`` before each operation, and for the two calls.
"""

import hashlib
import re
from dataclasses import dataclass

from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import (
    MACHINE_CLASS,
    MachineClass,
    MachineClassStatus,
    SecretReference,
)
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import ClassRequest
from kubewright.providers.grpc.messages import MachineClassMeta, SecretMeta

KEPT = 4000
KEPT_BYTES = 64 << 20
_PATH = re.compile(r"/apis/[^/]+/[^/]+/namespaces/([^/]+)/[^/]+/([^/]+)")


class NotKept(Exception):
    """There is no such class or secret among those that were asked about; the text says which."""


@dataclass(frozen=True, slots=True, repr=False)
class _Entry:
    machine_class: bytes
    secret: bytes
    secret_names: tuple[tuple[str, str], ...]
    """Namespace and name of each Secret that it is the content of."""

    @property
    def size(self) -> int:
        return len(self.machine_class) + len(self.secret)


class Contents:
    """Classes and secrets by revision."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], _Entry] = {}
        """By the class's path and the revision, the oldest first."""
        self._bytes = 0

    def put(self, request: ClassRequest) -> MachineClassMeta:
        """Keep what a request has; what the driver is told of it."""
        plain = _plain(request)
        path = path_of(plain)
        refs = (plain.secret_ref, plain.credentials_secret_ref)
        names = tuple((ref.namespace, ref.name) for ref in refs if ref is not None)
        whole = Secret(metadata=ObjectMeta(), type=request.secret.type, data=request.secret.data)
        entry = _Entry(MACHINE_CLASS.encode(plain), SECRET.encode(whole), names)
        meta = MachineClassMeta(path, _revision(entry))
        known = self._entries.pop((path, meta.revision), None)
        self._bytes += entry.size - (known.size if known is not None else 0)
        self._entries[path, meta.revision] = entry
        while len(self._entries) > 1 and (len(self._entries) > KEPT or self._bytes > KEPT_BYTES):
            self._bytes -= self._entries.pop(next(iter(self._entries))).size
        return meta

    def machine_class(self, meta: MachineClassMeta) -> str:
        """The class as JSON: of the revision, else the newest; ``name`` may be its path or its name.

        Raises:
            NotKept: no operation was about it.
        """
        found = self._entries.get((meta.name, meta.revision))
        if found is None:
            called = [
                each
                for (path, _), each in reversed(self._entries.items())
                if meta.name in (path, path.rpartition("/")[2])
            ]
            if not called:
                raise NotKept(f"no operation was about a class {meta.name!r}")
            found = called[0]
        return found.machine_class.decode()

    def secret(self, meta: SecretMeta) -> str:
        """The Secret as JSON, under the name that was asked for: of the revision, else the newest.

        A revision that was let go is answered only where all that is kept is the same, as what one machine
        boots from is not for another.

        Raises:
            NotKept: no operation was about a class that names it, or not of this revision.
        """
        wanted = (meta.namespace, meta.secret_name)
        kept = {
            revision: each.secret
            for (_, revision), each in self._entries.items()
            if wanted in each.secret_names
        }
        if not kept:
            raise NotKept(f"no operation was about a class with secret {'/'.join(wanted)!r}")
        found = kept.get(meta.revision)
        if found is None and meta.revision and len(set(kept.values())) > 1:
            raise NotKept(f"revision {meta.revision} of secret {'/'.join(wanted)!r} is not kept any more")
        return _under(found or next(reversed(kept.values())), *wanted)


def path_of(machine_class: MachineClass) -> str:
    """Where a class is served."""
    meta, resource = machine_class.metadata, MACHINE_CLASS.resource
    return f"/apis/{resource.api_version}/namespaces/{meta.namespace}/{resource.plural}/{meta.name}"


def key_of(path: str) -> tuple[str, str]:
    """Namespace and name of the class at a path; of a name alone the namespace is empty."""
    found = _PATH.fullmatch(path)
    return (found[1], found[2]) if found is not None else ("", path)


def _plain(request: ClassRequest) -> MachineClass:
    """The class without what changes by itself, and with the name of a secret if it has any content."""
    given = request.machine_class
    meta = given.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
    )
    plain = structs.replace(given, metadata=kept, status=MachineClassStatus())
    if request.secret.data and plain.secret_ref is None and plain.credentials_secret_ref is None:
        return structs.replace(plain, secret_ref=SecretReference(name=meta.name, namespace=meta.namespace))
    return plain


def _revision(entry: _Entry) -> int:
    digest = hashlib.sha256(b"%d:%b%b" % (len(entry.machine_class), entry.machine_class, entry.secret))
    return int.from_bytes(digest.digest()[:4], "big") % ((1 << 31) - 1) + 1


def _under(secret: bytes, namespace: str, name: str) -> str:
    found = SECRET.decode(secret)
    return SECRET.encode(structs.replace(found, metadata=ObjectMeta(namespace=namespace, name=name))).decode()
