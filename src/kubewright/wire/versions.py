"""The order of API versions: which of several a client is to prefer.

Theory.      Kubernetes prefers stable versions to beta to alpha, and of two equally mature ones the higher
             number: ``v10`` before ``v2`` before ``v2beta1`` before ``v11alpha1``. What does not look like
             a version comes last, in alphabetical order.
Invariants.  Pure, and a total order: the same versions give the same list, however they were given.
Called by    the server's discovery, and ``runtime.references`` on the client's side.
"""

import re
from collections.abc import Iterable

from kubewright.base.limits import number_of

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGE = {None: 0, "beta": 1, "alpha": 2}
_NO_VERSION = 3

Rank = tuple[int, int, int, str]


def rank(version: str) -> Rank:
    """A sort key: the preferred version sorts first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (_NO_VERSION, 0, 0, version)
    return (_STAGE[match[2]], -number_of(match[1]), -number_of(match[3] or "0"), "")


def by_preference(versions: Iterable[str]) -> list[str]:
    """The versions, the preferred one first."""
    return sorted(versions, key=rank)


def is_version(version: str) -> bool:
    """Whether this is the name of a version, such as ``v1`` or ``v1beta2``."""
    return _VERSION.fullmatch(version) is not None


def preferred(versions: Iterable[str]) -> str | None:
    """The one of these that a client is to take; None when none of them is a version."""
    return min((each for each in versions if is_version(each)), key=rank, default=None)
