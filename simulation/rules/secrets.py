"""What must be true of secrets: who sees them, which stay, and what verifies.

Theory.      Each certificate that a program presents is verified against what each other one trusts. How an
             authority may change is read from its Secret before and after.
Invariants.  A rule's answer names the place of a secret, and not what it found there.
Called by    ``table``.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING

import orjson

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import Workload
from kubewright.pki.keys import pems
from kubewright.testing.clocks import BEGIN
from simulation.controlplanes import health, parts
from simulation.controlplanes.health import content, signed
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, MANAGER, PLANE, SERVER, find, name_of_part
from simulation.journal import DELETE, EVENTS, LOG, NAMESPACE_NAME, SERVES, WORKLOAD, Object, Write
from simulation.resources import CONFIGS, SECRETS
from simulation.rules.facts import controllers_of, name_of
from simulation.rules.memories import ClusterPast
from simulation.rules.past import Past
from simulation.rules.planes import Entries, PlanePast, entries

if TYPE_CHECKING:
    from simulation.rules import Rule

TOKENS = "kube-system/"
OLD_DAYS = 8 * 365
"""An authority is replaced unasked when a tenth of its ten years is left."""

_TOKEN_ID = re.compile(rb"bootstrap-token-([a-z0-9]{6})\b")

# ---------------------------------------------------------------- clusters


def shown_secret(write: Write, past: Past, _row: "Rule") -> str:
    memory = past.memory(ClusterPast)
    if write.kind == LOG:
        return "a log line has a secret" if memory.tells(write.after) else ""
    if not write.committed or not isinstance(write.after, Mapping) or write.kind == SECRETS:
        return ""
    shown = write.after if write.kind == EVENTS else write.after.get("status")
    return f"{write.kind} {write.key} tells a secret" if memory.tells(orjson.dumps(shown).decode()) else ""


def is_token(write: Write) -> bool:
    """A manager has written a token into a workload cluster."""
    written = not write.committed and write.where == WORKLOAD and write.key.startswith(TOKENS)
    return written and write.verb != DELETE


def needless_token(write: Write, past: Past, row: "Rule") -> str:
    found = _TOKEN_ID.search(write.key.encode()) or _TOKEN_ID.search(write.after)
    token = found[1].decode() if found is not None else ""
    configs = [each for each in past.all(CONFIGS) if _token_id(each) == token]
    if len(configs) != 1:
        return f"a token is kept for {len(configs)} KubeadmConfigs"
    joined = past.memory(ClusterPast).joined
    wanted = [str(each["uid"]) for each in controllers_of(configs[0])]
    late = [each for each in wanted if past.now() - joined.get(each, past.now()) > row.bound]
    return f"a token is kept for {name_of(configs[0])}, which has joined" if late else ""


def _token_id(config: Object) -> str:
    join = config["spec"].get("joinConfiguration", {})
    token = join.get("discovery", {}).get("bootstrapToken", {}).get("token", "")
    return str(token).partition(".")[0]


def other_certificate(write: Write, past: Past, _row: "Rule") -> str:
    same = past.memory(ClusterPast).kept.get(write.name, write.after.get("data")) == write.after.get("data")
    return "" if same else f"Secret {write.name} is {'changed' if write.before else 'made anew'}"


# ---------------------------------------------------------------- nested control planes


def other_authority(write: Write, past: Past, _row: "Rule") -> str:
    """Or one phase of a rotation is done."""
    now = entries(write.after)
    before = past.memory(PlanePast).authorities.get(write.name, now)
    if before == now:
        return ""
    old = (past.part(HostMachine).now() - BEGIN).days > OLD_DAYS
    spec = (find(past.journal, PLANE) or {}).get("spec", {})
    asked = bool((spec.get("certificateAuthorities") or {}).get("rotateAfter"))
    if write.before and (asked or old) and _is_phase(before, now):
        return ""
    return f"Secret {write.name} is {'changed' if write.before else 'made anew'}"


def _is_phase(old: Entries, new: Entries) -> bool:
    """Whether this change of an authority is one of the three that a rotation makes."""
    before, after = pems(old["tls.crt"]), pems(new["tls.crt"])
    same_key, begun, goes_on = old["tls.key"] == new["tls.key"], "next.key" in old, "next.key" in new
    if goes_on:
        return same_key and not begun and after == [before[0], new["next.crt"]] and len(before) == 1
    if begun:
        return new["tls.key"] == old["next.key"] and after == [old["next.crt"], before[0]]
    return same_key and len(before) > 1 and after == before[:1]


def begins_to_talk(write: Write) -> bool:
    """A program serves, or a user may get another kubeconfig."""
    kubeconfig = write.kind == SECRETS and write.committed and write.after is not None
    return write.verb == SERVES or (kubeconfig and write.name == f"{parts.CLUSTER}-kubeconfig")


def unverified(_write: Write, past: Past, _row: "Rule") -> str:
    return next((f"{told} does not verify" for told, good in _pairs(past) if not good), "")


def _pairs(past: Past) -> Iterator[tuple[str, bool]]:
    etcds, servers, managers = (_up(each, past) for each in (ETCD, SERVER, MANAGER))
    for one, other in permutations(etcds, 2):
        yield "a member of etcd to another", signed(_own(one, "-etcd-peer"), _own(other, "-etcd"))
    for server in servers:
        for etcd in etcds:
            client = _own(server, "-apiserver-etcd-client")
            yield "the API server to etcd", signed(client, _own(etcd, "-etcd"))
            yield "etcd to the API server", signed(_own(etcd, "-etcd-server"), _own(server, "-etcd"))
        for manager in managers:
            yield from _client(health.kubeconfig_of(manager), server, "the controller manager")
        held = past.find(SECRETS, f"{parts.CLUSTER}-kubeconfig")
        if held is not None:
            yield from _client(health.value_of(held), server, "a user with the kubeconfig")


def _up(component: Component, past: Past) -> list[Workload]:
    found = past.part(HostMachine).instances(NAMESPACE_NAME, name_of_part(component))
    return [each.workload for each in found if each.up and not each.ending]


def _client(kubeconfig: bytes, server: Workload, who: str) -> Iterator[tuple[str, bool]]:
    """A client with a kubeconfig to a server, and back."""
    found = health.access(kubeconfig)
    if found is not None:
        yield f"{who} to the API server", signed(found.certificate, _own(server, "-ca"))
        yield f"the API server to {who}", signed(_own(server, "-apiserver"), found.ca)


def _own(workload: Workload, suffix: str) -> bytes:
    return content(workload.contents, suffix)
