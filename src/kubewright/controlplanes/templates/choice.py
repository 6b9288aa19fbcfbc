"""Which version and which manifests a component gets, and whether it may have that version now. Pure.

Choice.      The version follows from the first of these that is set: the version of the component, its
             channel, the version of its control plane, the default channel. If a channel has several entries
             for a package, the highest version is taken, as Cluster API Provider Nested meant it. The
             manifests are those of exactly that version, else of its minor version, else of a range that
             includes it. If none can be chosen, a sentence says why, and which versions or channels there
             are.
Upgrades.    A new version of a control plane reaches its components in the order in which they start: etcd,
             the API server, the controller manager. Each waits until the one before it is ready with its own
             new version. Which changes are allowed follows from the rules of Kubernetes and etcd: to the next
             minor version, which reads what the last one has stored; not back to an older minor version,
             which may not read what the newer one has stored. Patch releases may go both ways, so that a user
             can leave a bad one.
Invariants.  A version is chosen only if a spec names it or a channel has it. The version of a component is
             the one with which all its instances were ready: an upgrade that never became ready can be taken
             back. A version that the control plane must not have is refused for every component that follows
             it, so that none of them is upgraded alone. A version that is no release (``embedded``) is not
             compared, nor is that of a component which a foreign program runs.
Called by    ``component.look``, which makes the values; ``component.obstacles``, which asks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.base.limits import number_of
from kubewright.controlplanes.templates.catalog import Catalog, Entry, Manifest

_RELEASE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9a-z.-]+)?")
_RANGE = re.compile(r"(\d+\.\d+)-(\d+\.\d+)")
Order = tuple[int, int, int, int, int, str]

KUBERNETES = (Component.API_SERVER, Component.CONTROLLER_MANAGER)
"""The components whose versions are those of Kubernetes; etcd has its own."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen version and its manifests. ``channel``: that has the version; empty when a spec names it."""

    version: str
    manifests: Sequence[Manifest]
    channel: str = ""


@dataclass(frozen=True, slots=True)
class NoChoice:
    """Nothing could be chosen; ``message`` says why, and what there is."""

    message: str


def choose(
    component: Component, spec: ComponentSpec, catalog: Catalog, *, default: str, of_plane: str = ""
) -> Choice | NoChoice:
    """The version and the manifests of a component.

    ``default``   the channel of components that name nothing
    ``of_plane``  the version of Kubernetes that the control plane names; empty if it names none
    """
    if spec.version:
        return _by_version(component, spec.version, catalog)
    if spec.channel or not of_plane:
        return _by_channel(component, spec.channel or default, catalog)
    if component in KUBERNETES:
        return _by_version(component, of_plane, catalog)
    return _by_channel(component, minor(of_plane) or of_plane, catalog)


def ignored_channel(spec: ComponentSpec) -> str:
    """What to tell a user who named both a version and a channel; empty for others (S3-07)."""
    if not (spec.version and spec.channel):
        return ""
    return f"spec.channel {spec.channel} is ignored, because spec.version is {spec.version}"


def minor(version: str) -> str:
    """``1.36`` for ``v1.36.3``; empty for a text that is no release."""
    match = _RELEASE.fullmatch(version)
    return f"{match[1]}.{match[2]}" if match and match[2] else ""


def highest(versions: Iterable[str]) -> str:
    """The highest of these. A text that is no release is the lowest; of equal versions the first is taken."""
    return max(versions, key=_order)


def _by_version(component: Component, version: str, catalog: Catalog) -> Choice | NoChoice:
    plain = version.removeprefix("v")
    folders = [folder for package, folder in catalog.packages if package == component]
    for fits in (plain.__eq__, minor(plain).__eq__, partial(_within, _order(minor(plain)))):
        if folder := next(filter(fits, folders), ""):
            return Choice(plain, catalog.packages[component, folder])
    there = sorted(folders, key=_order)
    listed = ", ".join(there) or "none"
    return NoChoice(
        f"there are no templates of {component} for version {plain}; there are those for: {listed}"
    )


def _by_channel(component: Component, channel: str, catalog: Catalog) -> Choice | NoChoice:
    entries = catalog.channels.get(channel)
    if entries is None:
        listed = ", ".join(sorted(catalog.channels)) or "none"
        return NoChoice(f"there is no channel {channel}; there are: {listed}")
    versions = _of(component, entries)
    if not versions:
        return NoChoice(f"channel {channel} has no version of {component}")
    match _by_version(component, highest(versions), catalog):
        case Choice(version, manifests):
            return Choice(version, manifests, channel)
        case NoChoice(message):
            return NoChoice(f"channel {channel}: {message}")


def _of(component: Component, entries: Iterable[Entry]) -> list[str]:
    """The versions for a package: its own entries, else those without a package."""
    listed = list(entries)
    return [each.version for each in listed if each.package == component] or [
        each.version for each in listed if not each.package
    ]


def _within(version: Order, folder: str) -> bool:
    """Whether a folder such as ``1.35-1.36`` stands for this minor version."""
    if (match := _RANGE.fullmatch(folder)) is None:
        return False
    return _order(match[1]) <= version <= _order(match[2])


def _order(version: str) -> Order:
    """A sort key. A pre-release is before its release."""
    match = _RELEASE.fullmatch(version)
    if match is None:
        return (0, 0, 0, 0, 0, "")
    major, lesser, patch = (number_of(each or "0") for each in match.group(1, 2, 3))
    return (1, major, lesser, patch, 0 if match[4] else 1, match[4] or "")


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
