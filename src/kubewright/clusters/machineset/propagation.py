"""In-place propagation: what a set changes on its machines without a rollout. Pure.

Theory.      Labels and annotations of the template go to the machine and on to its bootstrap and
             infrastructure objects. An annotation of the machine names the keys that its set has put
             there, so that a key which leaves the template is removed, and one that a user wrote
             stays. The machine is patched last: while it differs, the change is not done.
             Three time-outs are propagated too. A machine has the watch filter of its set, so that the
             program that made it works on it. A machine that is being deleted still gets the time-outs: a
             user who shortens them wants its deletion to end.
Invariants.  Nothing is sent while nothing differs. Of a machine that is being deleted only the time-outs
             change.
Source       capi.md §7.3, §3.3.
Called by    ``policy``; ``clones`` for new machines.
"""

import json
from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import Machine, MachineSet
from kubewright.api.cluster.validate import NODE_DELETION_TIMEOUT
from kubewright.clusters.machineset.member import MachineMember, Timeouts, timeouts
from kubewright.replicas.set.seen import Seen

MachineSetSeen = Seen[MachineSet, MachineMember]
Texts = Mapping[str, str]

TIMEOUT_NAMES = ("nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout")
NOT_SHARED = frozenset((names.PROPAGATED_ANNOTATION, names.NUMBER_ANNOTATION, names.LAST_APPLIED_ANNOTATION))
"""Annotations that belong to one object alone."""


def wanted_labels(machine_set: MachineSet) -> dict[str, str]:
    """The labels of a set's machines and of their clones."""
    meta = machine_set.metadata
    labels = {
        **machine_set.spec.template.metadata.labels,
        names.CLUSTER_NAME_LABEL: machine_set.spec.cluster_name,
        names.SET_NAME_LABEL: names.label_value(meta.name),
    }
    inherited = (names.DEPLOYMENT_NAME_LABEL, names.WATCH_FILTER_LABEL)
    return {**labels, **{key: meta.labels[key] for key in inherited if meta.labels.get(key)}}


def wanted_annotations(machine_set: MachineSet) -> dict[str, str]:
    """The annotations that the template gives to machines and clones."""
    found = machine_set.spec.template.metadata.annotations
    return {key: text for key, text in found.items() if key not in NOT_SHARED}


def wanted_timeouts(machine_set: MachineSet) -> Timeouts:
    """The timeouts of a set's machines, the deletion of a Node with its default."""
    drain, detach, deletion = timeouts(machine_set.spec.template.spec)
    return drain, detach, deletion or NODE_DELETION_TIMEOUT


def marker(machine_set: MachineSet) -> str:
    """The annotation that names the keys which the set puts onto a machine."""
    keys = {
        "labels": sorted(wanted_labels(machine_set)),
        "annotations": sorted(wanted_annotations(machine_set)),
    }
    return json.dumps(keys, separators=(",", ":"))


def stale(seen: MachineSetSeen) -> list[MachineMember]:
    """The machines that lack something, or have something that left the template."""
    wanted = (wanted_labels(seen.set), wanted_annotations(seen.set), wanted_timeouts(seen.set))
    return [member for member in seen.members if member.version and _is_stale(member, *wanted)]


def _is_stale(member: MachineMember, labels: Texts, annotations: Texts, timeouts: Timeouts) -> bool:
    if member.timeouts != timeouts:
        return True
    return member.alive and bool(
        _changes(member.labels, labels, _propagated_keys(member.annotations, "labels"))
        or _changes(member.annotations, annotations, _propagated_keys(member.annotations, "annotations"))
    )


def patch(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What is to change on a machine, as a merge patch; empty for nothing."""
    metadata = metadata_of(machine_set, machine)
    before, after = timeouts(machine.spec), wanted_timeouts(machine_set)
    spec = {name: new for name, old, new in zip(TIMEOUT_NAMES, before, after, strict=True) if old != new}
    if metadata:
        noted = {names.PROPAGATED_ANNOTATION: marker(machine_set)}
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **noted}}
    parts = {"metadata": metadata, "spec": spec}
    return {key: value for key, value in parts.items() if value}


def metadata_of(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What is to change on a machine's metadata, and on that of its clones; empty for nothing."""
    meta = machine.metadata
    if meta.deleting:
        return {}
    labels = _changes(meta.labels, wanted_labels(machine_set), _propagated_keys(meta.annotations, "labels"))
    annotations = _changes(
        meta.annotations, wanted_annotations(machine_set), _propagated_keys(meta.annotations, "annotations")
    )
    parts = {"labels": labels, "annotations": annotations}
    return {key: value for key, value in parts.items() if value}


def _changes(has: Texts, wanted: Texts, propagated: frozenset[str]) -> dict[str, str | None]:
    """What leads from ``has`` to ``wanted``, of the keys that are wanted or were ``propagated`` before."""
    gone: dict[str, str | None] = {
        key: None for key in sorted(propagated) if key in has and key not in wanted
    }
    return {**gone, **{key: text for key, text in wanted.items() if has.get(key) != text}}


def _propagated_keys(annotations: Texts, part: str) -> frozenset[str]:
    """The keys that the set has put there, by the annotation that says so; none if it cannot be read."""
    try:
        found = json.loads(annotations.get(names.PROPAGATED_ANNOTATION, "{}"))
        return frozenset(each for each in found[part] if isinstance(each, str))
    except (ValueError, TypeError, KeyError, RecursionError):
        return frozenset()
