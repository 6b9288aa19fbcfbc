"""Which version and which manifests a component gets. Pure.

Theory.      The version follows from the first of these that is set: the version of the component, its
             channel, the version of its control plane, the default channel. If a channel has several entries
             for a package, the highest version is taken, as Cluster API Provider Nested meant it. The
             manifests are those of exactly that version, else of its minor version, else of a range that
             includes it.
Invariants.  A version is chosen only if a spec names it or a channel has it. If none can be chosen, a
             sentence says why, and which versions or channels there are.
Source       nested.md A3; S3-07, S3-08, S3-22, S3-23.
Called by    ``component.look``; ``component.versions`` for minor versions.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
