"""What is secret of a cluster stays so, and a token is there only for a machine that has yet to join.

Invariants.  What is secret is read from the world's own Secrets and from what VMs boot from, never from a
             list in this file. A rule's answer names the place, and not what it found there.
Source       capi.md §9.4.
Called by    ``rules``.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from simulation.clusterapi.whole import resources
from simulation.clusterapi.whole.facts import controllers_of, name_of, uid_of
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import (
    EVENTS,
    WORKLOAD,
    ApiStep,
    Logged,
    Object,
    Step,
    VmStep,
    Written,
)

JOINED_SECONDS = 60.0
"""How long a token may still be kept for a machine that has joined: the manager may not know it yet."""
TOKENS = "/api/v1/namespaces/kube-system/secrets"

_TOKEN = re.compile(rb"\b[a-z0-9]{6}\.([a-z0-9]{16})\b")
_TOKEN_ID = re.compile(rb"bootstrap-token-([a-z0-9]{6})\b")
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.+?)-----END", re.DOTALL)
_LINE = re.compile(rb"[A-Za-z0-9+/=]{24,}")


class Secrecy:
    """The rules, and what they remember."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._joined: dict[str, float] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.secrets_stay_secret, self.a_token_is_needed

    def secrets_stay_secret(self, step: Step, _past: Past) -> str:
        """No key, token or bootstrap data is in an event, in a status or in a log line."""
        if isinstance(step, Logged):
            return "a log line has a secret" if self._tells(step.text) else ""
        if isinstance(step, VmStep) and step.old is None and step.new is not None and step.new.bootstrap:
            self._secrets.update(_sensitive(step.new.bootstrap.data))
        if not isinstance(step, ApiStep) or step.new is None:
            return ""
        if step.resource == resources.SECRETS:
            for each in _values(step.new):
                self._secrets.update(_sensitive(each))
            return ""
        shown = step.new if step.resource == EVENTS else step.new.get("status")
        told = self._tells(orjson.dumps(shown).decode())
        return f"{step.resource} {step.key} tells a secret" if told else ""

    def a_token_is_needed(self, step: Step, past: Past) -> str:
        """A token is made or kept for one machine, which joins by it and has not joined yet."""
        _, machine = both(step, resources.MACHINES)
        if machine is not None and "nodeRef" in machine.get("status", {}):
            self._joined.setdefault(uid_of(machine), past.now())
        if not isinstance(step, Written) or step.cluster != WORKLOAD or not step.path.startswith(TOKENS):
            return ""
        if step.method == "DELETE":
            return ""
        found = _TOKEN_ID.search(step.path.encode()) or _TOKEN_ID.search(step.body)
        token = found[1].decode() if found is not None else ""
        configs = [
            each for each in past.journal.objects[resources.CONFIGS].values() if _token_id(each) == token
        ]
        if len(configs) != 1:
            return f"a token is kept for {len(configs)} KubeadmConfigs"
        wanted = [str(each["uid"]) for each in controllers_of(configs[0])]
        late = [each for each in wanted if past.now() - self._joined.get(each, past.now()) > JOINED_SECONDS]
        return f"a token is kept for {name_of(configs[0])}, which has joined" if late else ""

    def _tells(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)


def _token_id(config: Object) -> str:
    join = config["spec"].get("joinConfiguration", {})
    token = join.get("discovery", {}).get("bootstrapToken", {}).get("token", "")
    return str(token).partition(".")[0]


def _sensitive(data: bytes) -> Iterator[str]:
    """What of this content no one else may see: the lines of private keys, and the secrets of tokens."""
    for found in _TOKEN.finditer(data):
        yield found[1].decode()
    for found in _KEY.finditer(data):
        yield from (line.decode() for line in _LINE.findall(found[1]))


def _values(secret: Object) -> Iterable[bytes]:
    data: Mapping[str, Any] = secret.get("data") or {}
    decoded = [b64decode(each) for each in data.values()]
    inner = [b64decode(found) for each in decoded for found in re.findall(rb"client-key-data: *(\S+)", each)]
    return [*decoded, *inner]
