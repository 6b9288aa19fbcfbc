"""Whether a component may have its chosen version, and which component is upgraded first. Pure.

Theory.      A new version of a control plane reaches its components in the order in which they start: etcd,
             the API server, the controller manager. Each waits until the one before it is ready with its own
             new version. Which changes are allowed follows from the rules of Kubernetes and etcd: to the next
             minor version, which reads what the last one has stored; not back to an older minor version,
             which may not read what the newer one has stored. Patch releases may go both ways, so that a user
             can leave a bad one.
Invariants.  The version of a component is the one with which all its instances were ready: an upgrade that
             never became ready can be taken back. A version that the control plane must not have is refused
             for every component that follows it, so that none of them is upgraded alone. A version that is no
             release (``embedded``) is not compared, nor is that of a component which a foreign program runs.
Source       nested.md C2, D6 (version rules); Kubernetes' version skew policy; S3-04, S3-06.
Called by    ``look`` makes the values; ``obstacles`` asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.templates.choice import minor


@dataclass(frozen=True, slots=True)
class Version:
    """The versions of one component, or of the control plane.

    ``named``    kind and name of the object
    ``now``      the version with which all its instances were last ready; empty: they never were
    ``wanted``   the version that follows from its spec; empty: none could be chosen
    ``follows``  whether it is the control plane that names the wanted version
    """

    named: str = ""
    now: str = ""
    wanted: str = ""
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of a control plane, and of those of its components that our controllers run."""

    plane: Version = field(default_factory=Version)
    components: Mapping[Component, Version] = field(default_factory=dict)


Minor = tuple[int, int]
BEFORE = {Component.API_SERVER: Component.ETCD, Component.CONTROLLER_MANAGER: Component.API_SERVER}
"""Which component is upgraded before which."""


def problem_of(component: Component, versions: Versions) -> str:
    """Why a component cannot have its version, a sentence; empty if it can."""
    own = versions.components.get(component)
    if own is None:
        return ""
    changes = _plain(own.now) != own.wanted
    if own.follows and changes and (told := _step(versions.plane)):
        return f"{versions.plane.named}: {told}"
    return _step(own) or _skew(component, versions)


def waits_for(component: Component, versions: Versions) -> str:
    """The component that has to be upgraded before this one, a clause; empty: none, or it is done."""
    first = versions.components.get(BEFORE[component]) if component in BEFORE else None
    if first is None or not minor(first.wanted) or not first.now or _plain(first.now) == first.wanted:
        return ""
    return f"{first.named} has version {_plain(first.now)}, and becomes {first.wanted} first"


def _step(version: Version) -> str:
    """Why a version cannot be changed in this way; empty: it can, or one of the two is no release."""
    now, wanted = _minor(version.now), _minor(version.wanted)
    if now is None or wanted is None or now == wanted:
        return ""
    told = f"it has version {_plain(version.now)} and cannot become {_plain(version.wanted)}"
    here, after = _text(now), _text(_next(now))
    if wanted < now:
        unread = f"what {here} has stored, an older minor version may not read"
        return f"{told}: {unread}; name one of {here} or {after}"
    if wanted != _next(now):
        return f"{told} at once: minor versions come one after another; name one of {after} first"
    return ""


def _skew(component: Component, versions: Versions) -> str:
    """How a controller manager and its API server are too far apart; empty if they are not.

    A controller manager may be as old as its API server, or one minor version older.
    """
    server = versions.components.get(Component.API_SERVER)
    manager = versions.components.get(Component.CONTROLLER_MANAGER)
    if server is None or manager is None:
        return ""
    of_server, of_manager, has = _minor(server.wanted), _minor(manager.wanted), _minor(manager.now)
    if of_server is None or of_manager is None:
        return ""
    if component is Component.CONTROLLER_MANAGER and of_manager > of_server:
        return (
            f"version {manager.wanted} is newer than {server.wanted} of {server.named}, which a controller "
            f"manager must not be; name one of {_text(of_server)}"
        )
    behind = manager.wanted
    if component is Component.API_SERVER and has is not None and has < of_manager:
        of_manager, behind = has, _plain(manager.now)
    if component is not Component.ETCD and _next(of_manager) < of_server:
        return (
            f"{manager.named} with version {behind} is more than one minor version older than "
            f"{server.named} with {server.wanted}; name one of {_text(of_server)} for both"
        )
    return ""


def _minor(version: str) -> Minor | None:
    found = minor(version)
    if not found:
        return None
    major, lesser = found.split(".")
    return int(major), int(lesser)


def _next(found: Minor) -> Minor:
    return found[0], found[1] + 1


def _text(found: Minor) -> str:
    return f"{found[0]}.{found[1]}"


def _plain(version: str) -> str:
    return version.removeprefix("v")
