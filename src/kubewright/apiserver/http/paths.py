"""Parses the URL paths of resources. No I/O; knows the grammar, not the kinds.

/api/v1/…                       the core group
/apis/GROUP/VERSION/…           all others
    PLURAL[/NAME[/SUBRESOURCE]]                         cluster scope, or all namespaces
    namespaces/NAMESPACE/PLURAL[/NAME[/SUBRESOURCE]]    one namespace
    namespaces[/NAME[/status|finalize]]                 namespaces themselves
    nodes/NAME/proxy[/…]                                whatever follows is the kubelet's
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Where a request points to. Empty: not given."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(path: str) -> ResourcePath | None:
    """The resource that a path names; None for all other paths (discovery, health, unknown ones)."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            return _in_group("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _in_group(group, version, rest)
    return None


def group_of(path: str) -> str | None:
    """The group below which a path lies, resource or not; the core group is ``""``."""
    match path.strip("/").split("/"):
        case ["api", _, _, *_]:
            return ""
        case ["apis", group, _, _, *_]:
            return group
    return None


def _in_group(group: str, version: str, parts: list[str]) -> ResourcePath | None:
    namespace = ""
    if (
        parts[0] == "namespaces"
        and len(parts) > 2
        and (len(parts) > 3 or parts[2] not in ("status", "finalize"))
    ):
        namespace, parts = parts[1], parts[2:]
    if parts[0] == "nodes" and parts[2:3] == ["proxy"]:
        parts = parts[:3]
    if len(parts) > 3 or not all(parts) or (parts[0] == "namespaces" and namespace):
        return None
    return ResourcePath(group, version, parts[0], namespace, *parts[1:])
