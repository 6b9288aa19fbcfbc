"""Whether a component may have the version that is chosen for it, and which one has its own first. Pure.

Theory.      A version that a control plane names reaches its components in the order in which they start:
             etcd, the API server, the controller manager. Each waits until the one before is ready with the
             version that is chosen for that one. What a step may be is a rule of Kubernetes and of etcd: the
             next minor version at most, which reads what the last one has stored; and none back, which may
             not read what a later one has stored. Patch releases may go both ways, so that a bad one can be
             left.
Invariants.  A version counts as had when all instances were ready with it: an upgrade that never became
             ready can be taken back. A version that the control plane must not have is refused for all
             components that follow it, so none of them goes ahead. What is no release (``embedded``) is not
             compared, nor what a foreign program provides.
Source       nested.md C2, D6 (version rules); Kubernetes' version skew policy; S3-04, S3-06.
Called by    ``look`` makes the values; ``obstacles`` asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.templates.choice import minor


@dataclass(frozen=True, slots=True)
class Version:
    """Of one component, or of the control plane.

    ``named``    kind and name of the object
    ``now``      that all its instances had when they were ready; empty: none was yet
    ``wanted``   that its spec comes to; empty: nothing could be chosen
    ``follows``  the control plane says which
    """

    named: str = ""
    now: str = ""
    wanted: str = ""
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Versions:
    """Those of a control plane, and of its components that are there and that we run."""

    plane: Version = field(default_factory=Version)
    components: Mapping[Component, Version] = field(default_factory=dict)


Minor = tuple[int, int]
BEFORE = {Component.API_SERVER: Component.ETCD, Component.CONTROLLER_MANAGER: Component.API_SERVER}
"""Which component has its version first."""


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
    """Which component has its version first, a clause; empty: none, or it has."""
    first = versions.components.get(BEFORE[component]) if component in BEFORE else None
    if first is None or not minor(first.wanted) or not first.now or _plain(first.now) == first.wanted:
        return ""
    return f"{first.named} has version {_plain(first.now)}, and becomes {first.wanted} first"


def _step(version: Version) -> str:
    """Why this is no step that can be taken; empty: it can, or nothing is known of it."""
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
    """How far a controller manager may be from its API server: as old, or one minor version older."""
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
