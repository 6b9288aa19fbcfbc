"""The ``managedFields`` of a write: what each verb makes of them.

Theory.      ``fields`` computes who manages what; here are the rules for which objects. Most objects of a
             fleet are made by controllers and are never applied, and their managers would cost more than the
             objects. So the managers of an object are kept from its first apply on, or from the beginning if
             the request that creates it names a ``fieldManager``, as kubectl's do. The managers of any other
             object are unknown, and its first apply writes them down as ``before-first-apply``: the
             rule that Kubernetes has for objects without managers.
Invariants.  Pure but for the clock. An object without managers costs one look-up in its metadata. A client
             can set or reset managers by a write of the whole object, never through a subresource. Writes of
             the server itself (``Options.manager`` is empty) leave them as they are.
Called by    ``writing``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubewright.apiserver.fields import ownership, paths, shapes
from kubewright.apiserver.fields.paths import Malformed, Managed, Manager
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Options, ServedKind
from kubewright.apiserver.schema.causes import MOST_CAUSES, MOST_QUOTED
from kubewright.apiserver.schema.node import Node, Object
from kubewright.base.clock import Clock, rfc3339
from kubewright.wire.errors import BadRequest

Find = Callable[[ServedKind, str], ServedKind | None]
"""The same kind in another version (``apps/v1``); None when it is not served."""

Entries = Sequence[Mapping[str, Any]]
FIELD = "managedFields"
_SPEC, _STATUS, _METADATA = ((paths.field(name),) for name in ("spec", "status", "metadata"))
_IDENTITY = ("manager", "operation", "subresource", "apiVersion")
_LABELS = (*_METADATA, paths.field("labels"))


class FieldManagers:
    """Computes the field managers of objects that are written."""

    def __init__(self, find: Find, clock: Clock) -> None:
        self._find, self._clock = find, clock

    def created(self, kind: ServedKind, obj: Object, options: Options) -> Object:
        """A new object with its manager, if its request names one; else without.

        Raises:
            BadRequest: it is nested too deep to say who manages what.
        """
        bare = with_managers(obj, ())
        if not options.named:
            return bare
        check_depth(bare)
        whole = bare if kind.custom else kind.prepare(bare, bare)  # the defaults of built-in kinds count
        found = ownership.updated(self._write(kind, options, ""), {}, {}, whole)
        return with_managers(bare, paths.written(found))

    def changed(
        self, kind: ServedKind, new: Object, old: Object, options: Options, subresource: str
    ) -> Entries:
        """The managers after an update or a patch; ``new`` has those that the client sends.

        Raises:
            BadRequest: it is nested too deep to say who manages what.
        """
        sent, stored = new["metadata"].get(FIELD), old["metadata"].get(FIELD)
        if sent is None and stored is None:
            return ()
        if not options.manager:
            return stored or ()
        known = _read(stored) if subresource else _sent(kind, sent, stored)
        if not known:
            return ()
        check_depth(new)
        write = self._write(kind, options, subresource)
        return paths.written(ownership.updated(write, known, with_managers(old, ()), with_managers(new, ())))

    def applied(
        self, kind: ServedKind, wanted: Any, live: Object, options: Options, subresource: str
    ) -> Object:
        """``live`` (empty: there is none) after an apply, with its managers.

        Raises:
            BadRequest: what is applied is no such object; the message says where.
            Conflict: other managers have fields that it would change, and it is not forced.
        """
        check_applied(kind, wanted)
        stored = live["metadata"].get(FIELD) if live else None
        write = self._write(kind, options, subresource)
        bare = with_managers(live, ()) if live else live
        check_depth(bare)
        try:
            outcome = ownership.applied(write, _read(stored), bare, wanted, force=options.force)
        except ownership.Conflicts as error:
            causes = [
                {
                    "reason": "FieldManagerConflict",
                    "message": f"conflict with {manager.shown}",
                    "field": where,
                }
                for manager, path in error.found
                for where in [paths.shown(path)]
            ]
            raise refusals.apply_conflict(str(error), causes) from None
        return with_managers(outcome.obj, paths.written(outcome.managers))

    def _write(self, kind: ServedKind, options: Options, subresource: str) -> ownership.Write:
        return ownership.Write(
            name=options.manager,
            version=kind.resource.api_version,
            subresource=options.subresource or subresource,
            time=rfc3339(self._clock.now()),
            schemas=self._schemas(kind),
            convert=_unconverted if kind.versions is None else kind.versions.convert,
            builtin=not kind.custom,
            ignored=_ignored(kind, subresource),
        )

    def _schemas(self, kind: ServedKind) -> ownership.Schemas:
        def schema(version: str) -> Node | None:
            if kind.versions is not None:
                known = kind.versions.schemas.get(version)
                return None if known is None else known.node
            found = kind if version == kind.resource.api_version else self._find(kind, version)
            return None if found is None else found.schema.node

        return schema


def _unconverted(obj: Object, _version: str) -> Object:
    return obj


def check_applied(kind: ServedKind, wanted: Any) -> None:
    """Check that this can be applied to objects of the kind.

    Raises:
        BadRequest
    """
    if not isinstance(wanted, dict):
        raise BadRequest("error decoding YAML: an apply patch is an object")
    resource = kind.resource
    version, name = wanted.get("apiVersion") or "", wanted.get("kind") or ""
    if (version, name) != (resource.api_version, resource.kind):
        raise BadRequest(f"invalid object type: {_slashed(version)}, Kind={name}")
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict) and metadata.get(FIELD) is not None:
        raise BadRequest("metadata.managedFields must be nil")
    check_depth(wanted)
    about = f"failed to create typed patch object ({_about(metadata)}; {_slashed(version)}, Kind={name})"
    if unknown := kind.schema.unknown_fields(wanted):
        told = unknown[:MOST_CAUSES]
        said = "; ".join(f".{path[:MOST_QUOTED]}: field not declared in schema" for path in told)
        if len(unknown) > len(told):
            said += f"; and {len(unknown) - len(told)} more such fields"
        raise BadRequest(f"{about}: {said}")
    if (error := kind.schema.decode_error(wanted)) is not None:
        raise BadRequest(f"{about}: {error}")
    try:
        shapes.check(kind.schema.node, wanted)
    except shapes.Unkeyed as error:
        raise BadRequest(f"{about}: {error}") from None


def _slashed(version: Any) -> str:
    """An apiVersion as kube-apiserver's messages write it: with a slash, though the group may be empty."""
    return version if "/" in str(version) else f"/{version}"


def _about(metadata: Any) -> str:
    given = metadata if isinstance(metadata, dict) else {}
    return f"{given.get('namespace') or ''}/{given.get('name') or ''}"


def check_depth(value: Any, where: str = "", left: int = paths.MOST_DEEP) -> None:
    """Check that a value has no more levels than paths may have.

    Raises:
        BadRequest
    """
    if not left:
        raise BadRequest(f"the object is nested deeper than {paths.MOST_DEEP} levels, at {where[:80]}…")
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict | list):
                check_depth(inner, f"{where}.{name}", left - 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list):
                check_depth(inner, f"{where}[{index}]", left - 1)


def with_old_times(new: Object, old: Object) -> Object:
    """``new`` with the managers of ``old``, if only their times differ; else as it is."""
    now, before = new["metadata"].get(FIELD), old["metadata"].get(FIELD)
    if now is None or before is None or now == before or _timeless(now) != _timeless(before):
        return new
    return {**new, "metadata": {**new["metadata"], FIELD: before}}


def _timeless(entries: Entries) -> list[dict[str, Any]]:
    """The entries in an order that does not follow from their times."""
    bare = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
    return sorted(bare, key=lambda entry: [str(entry.get(name)) for name in _IDENTITY])


def _ignored(kind: ServedKind, subresource: str) -> tuple[paths.Path, ...]:
    """What the endpoint takes from the stored object, whatever a client sends."""
    if subresource == "status":
        if kind.custom or kind.resource.kind == "VolumeAttachment":
            return (_SPEC, _METADATA)
        return (_SPEC, _LABELS) if kind.resource.kind == "Deployment" else (_SPEC,)
    return (_STATUS,) if kind.has_status else ()


def _sent(kind: ServedKind, sent: Any, stored: Any) -> dict[Manager, Managed]:
    """The managers that a client sends; those that are stored if it sends none that can be read."""
    if sent == [{}] or (sent == [] and not kind.custom):  # a reset; an empty list is none in a custom kind
        return {}
    return _read(sent) or _read(stored)


def _read(entries: Any) -> dict[Manager, Managed]:
    try:
        return paths.read(entries or ())
    except Malformed:
        return {}


def with_managers(obj: Object, entries: Entries) -> Object:
    """The object with these managers; without, if there are none."""
    given = obj.get("metadata") or {}
    if not entries and FIELD not in given:
        return obj
    metadata = {name: value for name, value in given.items() if name != FIELD}
    return {**obj, "metadata": {**metadata, **({FIELD: list(entries)} if entries else {})}}
