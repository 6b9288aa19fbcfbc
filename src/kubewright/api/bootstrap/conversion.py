"""KubeadmConfig and its template in v1beta1 and v1beta2: tables of what differs. Pure.

Theory.      As ``cluster.conversion``. Flags are a map in v1beta1 and a list in v1beta2: of a name that is
             there twice the last value wins. Times that kubeadm waits for moved between structs, so a rule
             of its own says which of both versions decides: v1beta1 where it has a time. What v1beta2 has no
             more (ranges of networks, versions and names that follow from the Cluster) is lost, as upstream
             loses it.
Invariants.  As ``cluster.conversion``.
Called by    ``catalog``, for servers that convert.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kubewright.api.bootstrap import v1beta2
from kubewright.api.cluster.conversion import FAILURES, GONE, below, new, old
from kubewright.api.cluster.v1beta1 import VERSION
from kubewright.api.conversion import (
    Context,
    Intent,
    Move,
    Obj,
    Table,
    at,
    duration_of,
    each,
    put,
    renamed,
    seconds_of,
)

NOWHERE = Context("", lambda _group, _kind: "")
"""Codecs of times look at no object."""


def _flags(found: Mapping[str, str], _context: Context) -> list[Obj]:
    return [{"name": name, "value": found[name]} for name in sorted(found)]


def _flags_by_name(found: Sequence[Mapping[str, Any]], _context: Context) -> Obj:
    return {each["name"]: each.get("value") or "" for each in found}


def flags(path: str) -> Move:
    """Flags of a program."""
    return Move(path, path, _flags, _flags_by_name)


def _partition(found: Mapping[str, Any], _context: Context) -> Obj:
    return {**found, "layout": bool(found.get("layout"))}


COMPONENTS = ("apiServer", "controllerManager", "scheduler")
_TOKENS = Move(
    "initConfiguration.bootstrapTokens",
    "initConfiguration.bootstrapTokens",
    each(renamed("ttl", "ttlSeconds", seconds_of)),
    each(renamed("ttlSeconds", "ttl", duration_of)),
)
SPEC = (
    *(flags(f"clusterConfiguration.{name}.extraArgs") for name in (*COMPONENTS, "etcd.local")),
    *(
        flags(f"{name}.nodeRegistration.kubeletExtraArgs")
        for name in ("initConfiguration", "joinConfiguration")
    ),
    _TOKENS,
    Move("diskSetup.partitions", "diskSetup.partitions", each(_partition), each(_partition)),
)
_DISCOVERY = "joinConfiguration.discovery"
INTENTS = (
    f"{_DISCOVERY}.bootstrapToken.unsafeSkipCAVerification",
    f"{_DISCOVERY}.file.kubeConfig.cluster.insecureSkipTLSVerify",
    f"{_DISCOVERY}.file.kubeConfig.user.exec.provideClusterInfo",
    "ignition.containerLinuxConfig.strict",
)
LISTS = (
    ("files", "path", "append"),
    *((f"clusterConfiguration.{name}.extraVolumes", "hostPath", "readOnly") for name in COMPONENTS),
)
"""Lists whose items have a plain value that may be unset in v1beta2, and the field that tells them apart."""
ZEROS: Mapping[str, Any] = {
    **{f"clusterConfiguration.{name}": {} for name in ("etcd", "networking", *COMPONENTS, "dns")},
    "initConfiguration.nodeRegistration": {},
    "initConfiguration.localAPIEndpoint": {},
    "joinConfiguration.nodeRegistration": {},
    "joinConfiguration.discovery": {},
    "joinConfiguration.controlPlane.localAPIEndpoint": {},
}
HEALTHY = "timeouts.controlPlaneComponentHealthCheckSeconds"
TLS = "joinConfiguration.timeouts.tlsBootstrapSeconds"
STARTED = "clusterConfiguration.apiServer.timeoutForControlPlane"
FOUND = f"{_DISCOVERY}.timeout"


def _listed_intents(source: Obj, result: Obj, hub: Obj | None) -> None:
    for path, key, name in LISTS:
        before = {item.get(key): item.get(name) for item in reversed(at(source, path) or [])}
        known = {item.get(key): item.get(name) for item in reversed(at(hub, path) or [])}
        if items := at(result, path):
            put(
                result,
                path,
                [_meant(item, name, before.get(item.get(key)), known.get(item.get(key))) for item in items],
            )


def _meant(item: Obj, name: str, before: Any, known: Any) -> Obj:
    """The item with what v1beta1 says; with false, if v1beta2 says that on purpose."""
    rest = {key: value for key, value in item.items() if key != name}
    if before:
        return {**rest, name: True}
    return {**rest, name: False} if known is False else rest


def _times_up(source: Obj, result: Obj, hub: Obj | None) -> None:
    for part in ("initConfiguration", "joinConfiguration"):
        if kept := at(hub, f"{part}.timeouts"):
            put(result, f"{part}.timeouts", kept)
    started, found = at(source, STARTED), at(source, FOUND)
    seconds = None if started is None else seconds_of(started, NOWHERE)
    if seconds is not None:
        put(result, f"initConfiguration.{HEALTHY}", seconds)
    if found is not None or seconds is not None:
        put(result, f"joinConfiguration.{HEALTHY}", seconds)
    if found is not None:
        put(result, TLS, seconds_of(found, NOWHERE))


def _both_down(result: Obj) -> None:
    started, found = at(result, f"initConfiguration.{HEALTHY}"), at(result, TLS)
    for part in ("initConfiguration", "joinConfiguration"):
        put(result, f"{part}.timeouts", None)
    if started is not None:
        put(result, STARTED, duration_of(started, NOWHERE))
    if result.get("initConfiguration") == {}:
        del result["initConfiguration"]
    if found is not None:
        put(result, FOUND, duration_of(found, NOWHERE))
    if result.get("joinConfiguration") == {}:
        del result["joinConfiguration"]
    for path, _, name in LISTS:
        for item in at(result, path) or []:
            if not item.get(name):
                item.pop(name, None)
    if isinstance(access := at(result, f"{_DISCOVERY}.file.kubeConfig"), dict):
        access.setdefault("user", {})


def _at(path: str, change: Callable[[Obj, Obj, Obj | None], None]) -> Callable[[Obj, Obj, Obj | None], None]:
    """A rule of specs for the spec at a path."""

    def changed(source: Obj, result: Obj, hub: Obj | None) -> None:
        spec = at(result, path) or {}
        change(at(source, path) or {}, spec, at(hub, path))
        if spec:
            put(result, path, spec)

    return changed


def _both_up(source: Obj, result: Obj, hub: Obj | None) -> None:
    _listed_intents(source, result, hub)
    _times_up(source, result, hub)


def _down_at(path: str) -> Callable[[Obj], None]:
    down = _at(path, lambda _source, result, _hub: _both_down(result))
    return lambda result: down(result, result, None)


def _table(path: str, base: Table) -> Table:
    """The table of a kind that has the spec at a path."""
    return replace(
        base,
        moves=(*base.moves, *below(path, SPEC)),
        intents=(
            *base.intents,
            *(Intent(f"{path}.{name}", f"{path}.{name}", guarded=True) for name in INTENTS),
        ),
        zeros={**base.zeros, **{f"{path}.{name}": value for name, value in ZEROS.items()}},
        finish_up=_at(path, _both_up),
        finish_down=_down_at(path),
    )


KUBEADM_CONFIG = _table(
    "spec",
    Table(
        v1beta2.KUBEADM_CONFIG,
        VERSION,
        moves=(*old("conditions", *FAILURES), GONE, *new("conditions")),
        intents=(Intent("status.ready", "status.initialization.dataSecretCreated"),),
        zeros={"+spec": {}, "+status.ready": False},
        new_zeros={"+status.deprecated.v1beta1": {}},
    ),
)
TEMPLATE = "spec.template"
KUBEADM_CONFIG_TEMPLATE = _table(
    f"{TEMPLATE}.spec",
    Table(
        v1beta2.KUBEADM_CONFIG_TEMPLATE,
        VERSION,
        zeros={f"+{TEMPLATE}.metadata": {}, f"+{TEMPLATE}.spec": {}},
    ),
)
TABLES = (KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE)
