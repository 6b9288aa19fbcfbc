"""How an object is deleted: finalizers and grace periods. Pure.

Theory.      A delete either removes the object, or marks it (deletionTimestamp). A marked object stays
             while it has a finalizer or its grace period runs. The write that removes the last
             finalizer removes it.
             Dependents are the garbage collector's task: ``Foreground`` and ``Orphan`` only add a
             finalizer, which the collector removes when it is done. A later delete with another policy
             replaces the finalizer, unless a grace period runs.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.apiserver.registry.kind import Object, ServedKind
from kubewright.base.clock import parse_rfc3339, rfc3339

LONGEST_GRACE = 2**31 - 1
"""Most seconds of grace: 68 years, so that the deletionTimestamp is a valid date."""

FOREGROUND_FINALIZER, ORPHAN_FINALIZER = "foregroundDeletion", "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options and preconditions of a delete; the defaults are those of the kind."""

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the object at once: it has no finalizer and no grace period."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Keep the object, marked as being deleted; ``obj`` may equal the stored one."""

    obj: Object


def held(kind: ServedKind, obj: Object) -> bool:
    """Whether a finalizer keeps the object. Namespaces have a second list, in their spec."""
    if obj["metadata"].get("finalizers"):
        return True
    return "finalize" in kind.subresources and bool((obj.get("spec") or {}).get("finalizers"))


def finished(kind: ServedKind, obj: Object) -> bool:
    """Whether a marked object has nothing left to wait for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("deletionGracePeriodSeconds")
        and not held(kind, obj)
    )


def delete(kind: ServedKind, obj: Object, deletion: DeleteOptions, now: datetime) -> Remove | Mark:
    """What a delete does to the stored object."""
    if "deletionTimestamp" in obj["metadata"]:
        return _delete_again(kind, obj, deletion, now)
    obj = _with_propagation(obj, deletion.propagation)
    grace = _grace(kind, obj, deletion)
    if grace == 0 and not held(kind, obj):
        return Remove()
    return Mark(_marked(kind, obj, now, grace))


def _delete_again(kind: ServedKind, obj: Object, deletion: DeleteOptions, now: datetime) -> Remove | Mark:
    """A second delete can shorten the grace period; when none runs, it may say otherwise of dependents."""
    running = obj["metadata"].get("deletionGracePeriodSeconds") or 0
    if running and (deletion.grace is None or deletion.grace >= running):
        return Mark(obj)
    obj = _with_propagation(obj, deletion.propagation)
    if not running:
        return Mark(obj) if held(kind, obj) else Remove()
    if deletion.grace is not None and deletion.grace <= 0 and not held(kind, obj):
        return Remove()
    grace = max(deletion.grace or 0, 0)
    metadata = obj["metadata"]
    sooner = parse_rfc3339(metadata["deletionTimestamp"]) - timedelta(seconds=running - grace)
    if sooner < now:  # never in the past; who asked for some grace leaves the end to the kubelet
        sooner, grace = now, min(grace, 1)
    stamps = {"deletionTimestamp": rfc3339(sooner), "deletionGracePeriodSeconds": grace}
    return Mark({**obj, "metadata": {**metadata, **stamps}})


def _grace(kind: ServedKind, obj: Object, deletion: DeleteOptions) -> int:
    if kind.grace_seconds is None:
        return 0
    default = kind.grace_seconds(obj)
    wanted = default if deletion.grace is None else deletion.grace
    # Zero by default: no kubelet runs the Pod, so it needs no grace period.
    return 0 if default == 0 else 1 if wanted < 0 else min(wanted, LONGEST_GRACE)


def _marked(kind: ServedKind, obj: Object, now: datetime, grace: int) -> Object:
    metadata = obj["metadata"]
    stamps = {
        "deletionTimestamp": rfc3339(now + timedelta(seconds=grace)),
        "deletionGracePeriodSeconds": grace,
    }
    generation = {"generation": metadata["generation"] + 1} if metadata.get("generation") else {}
    marked = {**obj, "metadata": {**metadata, **generation, **stamps}}
    if "finalize" in kind.subresources:
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _with_propagation(obj: Object, policy: str) -> Object:
    wanted = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}.get(policy)
    before = obj["metadata"].get("finalizers", [])
    if not policy:
        return obj
    others = [each for each in before if each not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    after = [*others, wanted] if wanted else others
    return obj if after == before else {**obj, "metadata": {**obj["metadata"], "finalizers": after}}
