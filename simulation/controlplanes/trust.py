"""What must be true of authorities and certificates at every step, in a rotation too.

Theory.      The machine knows with what each program was started, so each certificate that one presents is
             verified against what each other one trusts. How an authority may change is read from its Secret
             before and after: a new certificate comes behind the old one, the two change places, the old one
             goes; nothing else.
Called by    ``rules``.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import Workload
from kubewright.pki.keys import pems
from kubewright.testing.clocks import BEGIN
from simulation.controlplanes import acts, health
from simulation.controlplanes.acts import ETCD, MANAGER, PLANE, SERVER, find, name_of
from simulation.controlplanes.facts import AUTHORITIES
from simulation.controlplanes.health import content, signed
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.setup import SECRETS
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import Happening, ProgramStep, Step
from simulation.person import NAMESPACE_NAME

Entries = Mapping[str, bytes]
OLD_DAYS = 8 * 365
"""An authority is replaced unasked when a tenth of its ten years is left."""


class Trust:
    """These rules, of one run."""

    def __init__(self, machine: Callable[[], HostMachine]) -> None:
        self._machine = machine
        self._authorities: dict[str, Entries] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (self.no_authority_is_replaced, self.every_credential_verifies)

    def no_authority_is_replaced(self, step: Step, past: Past) -> str:
        """Authorities, and the key of service accounts, stay the same; or one phase of a rotation is done."""
        old, new = both(step, SECRETS)
        plane = find(past.journal, PLANE)
        if plane is None:
            self._authorities.clear()
        name = str((new or old or {"metadata": {"name": ""}})["metadata"]["name"])
        if new is None or name not in {f"{acts.CLUSTER}{end}" for end in AUTHORITIES}:
            return ""
        now = _entries(new)
        before = self._authorities.setdefault(name, now)
        self._authorities[name] = now
        if before == now:
            return ""
        old_age = (self._machine().now() - BEGIN).days > OLD_DAYS
        asked = bool(((plane or {}).get("spec", {}).get("certificateAuthorities") or {}).get("rotateAfter"))
        if old and (asked or old_age) and _is_phase(before, now):
            return ""
        return f"Secret {name} is {'changed' if old else 'made anew'}"

    def every_credential_verifies(self, step: Step, past: Past) -> str:
        """What each program presents was signed by what those that it talks to trust."""
        secret = both(step, SECRETS)[1]
        kubeconfig = secret is not None and secret["metadata"]["name"] == f"{acts.CLUSTER}-kubeconfig"
        begins = isinstance(step, ProgramStep) and step.happening is Happening.SERVES
        if not (begins or kubeconfig):
            return ""
        return next((f"{told} does not verify" for told, good in self._pairs(past) if not good), "")

    def _pairs(self, past: Past) -> Iterator[tuple[str, bool]]:
        etcds, servers, managers = (self._up(each) for each in (ETCD, SERVER, MANAGER))
        for one, other in permutations(etcds, 2):
            yield "a member of etcd to another", signed(_own(one, "-etcd-peer"), _own(other, "-etcd"))
        for server in servers:
            for etcd in etcds:
                client = _own(server, "-apiserver-etcd-client")
                yield "the API server to etcd", signed(client, _own(etcd, "-etcd"))
                yield "etcd to the API server", signed(_own(etcd, "-etcd-server"), _own(server, "-etcd"))
            for manager in managers:
                yield from _client(health.kubeconfig_of(manager), server, "the controller manager")
            held = past.journal.objects[SECRETS].get(f"{NAMESPACE_NAME}/{acts.CLUSTER}-kubeconfig")
            if held is not None:
                yield from _client(health.value_of(held), server, "a user with the kubeconfig")

    def _up(self, component: Component) -> list[Workload]:
        found = self._machine().instances(NAMESPACE_NAME, name_of(component))
        return [each.workload for each in found if each.up and not each.ending]


def _client(kubeconfig: bytes, server: Workload, who: str) -> Iterator[tuple[str, bool]]:
    """A client with a kubeconfig to a server, and back."""
    found = health.access(kubeconfig)
    if found is not None:
        yield f"{who} to the API server", signed(found.certificate, _own(server, "-ca"))
        yield f"the API server to {who}", signed(_own(server, "-apiserver"), found.ca)


def _own(workload: Workload, suffix: str) -> bytes:
    return content(workload.contents, suffix)


def _entries(secret: Mapping[str, Any]) -> Entries:
    return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _is_phase(old: Entries, new: Entries) -> bool:
    """Whether this change of an authority is one of the three that a rotation makes."""
    before, after = pems(old["tls.crt"]), pems(new["tls.crt"])
    same_key, begun, goes_on = old["tls.key"] == new["tls.key"], "next.key" in old, "next.key" in new
    if goes_on:
        return same_key and not begun and after == [before[0], new["next.crt"]] and len(before) == 1
    if begun:
        return new["tls.key"] == old["next.key"] and after == [old["next.crt"], before[0]]
    return same_key and len(before) > 1 and after == before[:1]
