"""The update of a default role or binding that exists already.

Theory.      The defaults are those of the release, so a newer server adds what is new in them. What a user
             added stays. What a user removed is added again at the next start, unless the object has the
             annotation ``rbac.authorization.kubernetes.io/autoupdate: "false"``. A binding to another
             role is not the default any more: it gets the default's role and subjects.
Invariants.  Pure. Nothing is removed from an object, except from a binding to another role: its role and
             subjects.
Called by    ``bootstrap``, at each start of the server.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.apiserver.authorization.rules import missing, read

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
Object = dict[str, Any]


def reconciled(wanted: Object, there: Object) -> Object | None:
    """The object to store in place of ``there``; None when ``there`` can stay as it is."""
    metadata = there.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false" or "deletionTimestamp" in metadata:
        return None
    marks = {
        name: {**(metadata.get(name) or {}), **_absent(wanted["metadata"].get(name), metadata.get(name))}
        for name in ("labels", "annotations")
    }
    marks = {name: words for name, words in marks.items() if words or name in metadata}
    new = {**there, **_content(wanted, there), "metadata": {**metadata, **marks}}
    return None if new == there else new


def _content(wanted: Object, there: Object) -> Object:
    if "roleRef" in wanted:
        return _bound(wanted, there)
    if "aggregationRule" in wanted:  # the aggregation controller writes its rules
        return {"aggregationRule": _aggregated(wanted["aggregationRule"], there.get("aggregationRule") or {})}
    held = read(there)
    lacking = [rule for rule in read(wanted) if missing(held, [rule])]
    return {"rules": [*(there.get("rules") or ()), *(rule.wire() for rule in lacking)]} if lacking else {}


def _bound(wanted: Object, there: Object) -> Object:
    if there.get("roleRef") != wanted["roleRef"]:
        return {"roleRef": wanted["roleRef"], "subjects": wanted.get("subjects", [])}
    subjects = there.get("subjects") or []
    lacking = [each for each in wanted.get("subjects", ()) if each not in subjects]
    return {"subjects": [*subjects, *lacking]} if lacking else {}


def _aggregated(wanted: Object, there: Object) -> Object:
    selectors = there.get("clusterRoleSelectors") or []
    lacking = [each for each in wanted["clusterRoleSelectors"] if each not in selectors]
    return {**there, "clusterRoleSelectors": [*selectors, *lacking]}


def _absent(wanted: Mapping[str, str] | None, there: Mapping[str, str] | None) -> Mapping[str, str]:
    """The wanted labels (or annotations) whose keys are missing; a key with another value keeps it."""
    return {name: value for name, value in (wanted or {}).items() if name not in (there or {})}
