"""Which of several versions of a group clients should prefer.

``v1`` before ``v1beta2`` before ``v1alpha1``, higher numbers first; whatever looks different
comes last, in alphabetical order: Kubernetes' rule.
"""

import re
from collections.abc import Iterable

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGE = {None: 0, "beta": 1, "alpha": 2}

Rank = tuple[int, int, int, str]


def rank(version: str) -> Rank:
    """A sort key: the best version has the least."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    return (_STAGE[match[2]], -int(match[1]), -int(match[3] or 0), "")


def by_preference(versions: Iterable[str]) -> list[str]:
    """The versions, the preferred one first."""
    return sorted(versions, key=rank)
