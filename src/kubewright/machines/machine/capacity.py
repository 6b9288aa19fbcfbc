"""The virtual capacity of a class on its nodes: extended resources that no kubelet knows.

Theory.      A class names resources that its nodes shall offer beside those of their kubelets
             (``nodeTemplate.virtualCapacity``). They are kept in ``status.capacity`` by a three-way merge, as
             the labels of a template are: what was written last stands in an annotation of the node, in
             MCM's form, so that what the class no longer names can be told from what a kubelet or a device
             plugin has put there. The status is written before the annotation: after a crash between the two
             the same patch is planned again.
Invariants.  Pure. The patch of a node that has been patched so is ``{}``. Keys that the class has never named
             stay. A class without ``nodeTemplate`` changes nothing, as in MCM.
Source       mcm.md §4.9, item 3; MCM #1024.
Called by    ``health`` (``patch``), ``node_marks`` (``as_text``), ``look`` (``of_class``).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubewright.api.core import Node
from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.wire import quantity

Capacity = Mapping[str, str | int]
"""Amounts by the names of resources."""


def of_class(found: MachineClass | None) -> Capacity | None:
    """What the nodes of a class shall offer in addition; None: it is not known, so nothing is changed."""
    template = found.node_template if found is not None else None
    return template.virtual_capacity if template is not None else None


def patch(node: Node, wanted: Capacity | None) -> Patch:
    """Bring ``status.capacity`` in line with the class. Merge patch on the node's ``status``."""
    if wanted is None:
        return {}
    present, before = node.status.capacity, _applied(node)
    edits: dict[str, str | None] = {key: None for key in before if key not in wanted and key in present}
    edits |= {key: str(value) for key, value in wanted.items() if not _same(present.get(key), value)}
    return {"status": {"capacity": edits}} if edits else {}


def as_text(wanted: Capacity) -> str:
    """The text of the annotation that records what was applied."""
    return msgspec.json.encode({key: str(value) for key, value in wanted.items()}, order="sorted").decode()


def _applied(node: Node) -> Mapping[str, Any]:
    """What was written last; empty when nothing was, or the text is broken."""
    text = node.metadata.annotations.get(names.LAST_APPLIED_CAPACITY_ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _same(present: str | int | None, wanted: str | int) -> bool:
    """Whether two quantities are one amount (``1000m`` is ``1``); one that cannot be read is its text."""
    if present is None:
        return False
    try:
        return quantity.parse(present) == quantity.parse(wanted)
    except ValueError:
        return str(present) == str(wanted)
