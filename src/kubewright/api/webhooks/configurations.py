"""The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration of our webhooks, and its rights.

Theory.      An API server asks a webhook about the writes that its entry names: here those that create an
             object of one kind or change it, and of the changes only those of fields that a rule or a
             default reads. Writes of finalizers, owner references and status are not sent to us: so no
             deletion waits for us, and most writes of controllers cost no call. Entries name one version;
             an API server converts others to it.
Invariants.  Pure. Every field that an API server would fill in is written, so that what is wanted and what
             is found can be compared. Paths and names of webhooks are upstream's, names of configurations
             are not.
             An account that may create any webhook configuration could read and change every write to the
             cluster. So ours may only change the two of its own name, which the installation creates empty
             (``deploy/clusters/webhooks.yaml``) and which go with it; and only the Secret of its name. No
             rule lists or watches: the objects are read by their names.
Called by    ``runtime.webhooks.keeper``, which writes them; ``compose.webhooks``, which knows where we are;
             ``make gen``, which writes ``deploy/clusters``.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from kubewright.api.kinds import dynamic
from kubewright.api.machine.manifests import HEADER, as_yaml
from kubewright.api.rbac import NAMESPACE, Rule, granted
from kubewright.api.webhooks.review import Stage, Webhook
from kubewright.base.errors import InvalidInput
from kubewright.wire.gvk import Key, Resource

NAME = "kubewright-webhooks"
"""The default name of the Service; the configurations and the Secret with the keys are named after it."""

SECONDS = 5
"""How long an API server waits for an answer. Ours take milliseconds; while we are away, each write waits."""

GROUP = "admissionregistration.k8s.io"
MUTATING = dynamic(
    Resource(GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)
)
VALIDATING = dynamic(
    Resource(
        GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
    )
)
STAGES = {Stage.MUTATING: MUTATING, Stage.VALIDATING: VALIDATING}
"""The kind of the configuration for each stage."""

_MARKS = ("metadata.labels", "metadata.annotations")
"""What defaults may read beside the fields of the rules."""


class FailurePolicy(StrEnum):
    """What an API server does with a write when no webhook answers: let it through, or refuse it."""

    IGNORE = "Ignore"
    FAIL = "Fail"


@dataclass(frozen=True, slots=True)
class Address:
    """Where API servers reach us: a Service in their cluster, or a ``url`` without a path."""

    service: Key | None = None
    url: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidInput for a URL that an API server would refuse."""
        if (self.service is None) == (not self.url):
            raise InvalidInput("the API server reaches webhooks either by a Service or by a URL")
        if self.url and (problem := _problem(self.url)):
            raise InvalidInput(f"the URL of webhooks {problem}, not {self.url!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The host names and addresses under which we are asked for."""
        if self.service is None:
            return (str(urlsplit(self.url).hostname),)
        name, namespace = self.service.name, self.service.namespace
        return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local")

    def client_config(self, path: str, bundle: bytes) -> dict[str, Any]:
        """How an API server reaches the webhook at ``path``, and which authorities it trusts (PEM)."""
        trusted = {"caBundle": base64.b64encode(bundle).decode()}
        if self.service is None:
            return {"url": f"{self.url.rstrip('/')}{path}", **trusted}
        name, namespace = self.service.name, self.service.namespace
        return {"service": {"name": name, "namespace": namespace, "path": path, "port": 443}, **trusted}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects are reviewed: those with ``labels``, in the namespaces of a ``Namespaces``.

    ``wanted``, ``excluded``  names, or prefixes with ``*`` after them; ``wanted`` empty means all
    """

    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """In CEL, since a label selector matches no prefix: the namespace is one of ours; empty for all."""
        among = " || ".join(map(_in_namespace, self.wanted))
        without = " || ".join(map(_in_namespace, self.excluded))
        parts = [f"({among})" if among else "", f"!({without})" if without else ""]
        return " && ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Registration:
    """What an API server is told of our webhooks, except which authorities it should trust.

    ``name``     of both configurations
    ``address``  where the API server reaches us
    ``policy``   what it does with a write when no webhook answers
    ``scope``    the objects that are reviewed
    """

    name: str
    webhooks: tuple[Webhook, ...]
    address: Address
    policy: FailurePolicy = FailurePolicy.IGNORE
    scope: Scope = field(default_factory=Scope)

    def entries(self, stage: Stage, bundle: bytes) -> list[dict[str, Any]]:
        """The ``webhooks`` of the configuration for ``stage``."""
        return [self._entry(each, bundle) for each in self.webhooks if each.stage is stage]

    def _entry(self, webhook: Webhook, bundle: bytes) -> dict[str, Any]:
        resource = webhook.rules.kind.resource
        conditions = [{"name": "reviewed-fields-change", "expression": _condition(webhook)}]
        if where := self.scope.condition:
            conditions.append({"name": "watched-namespaces", "expression": where})
        once = {"reinvocationPolicy": "Never"} if webhook.stage is Stage.MUTATING else {}
        rule = {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [resource.plural],
            "scope": "Namespaced",
        }
        return {
            "name": webhook.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.address.client_config(webhook.path, bundle),
            "failurePolicy": self.policy.value,
            "matchConditions": conditions,
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {"matchLabels": dict(self.scope.labels)} if self.scope.labels else {},
            "rules": [rule],
            "sideEffects": "None",
            "timeoutSeconds": SECONDS,
            **once,
        }


def bundles(configuration: Mapping[str, Any]) -> frozenset[bytes]:
    """The authorities that each entry of a configuration trusts, as PEM; one that is not base64 is none."""
    found = set()
    for each in configuration.get("webhooks") or ():
        text = (each.get("clientConfig") or {}).get("caBundle") or ""
        try:
            found.add(base64.b64decode(text, validate=True))
        except ValueError:
            found.add(b"")
    return frozenset(found)


def contains(found: Any, wanted: Any) -> bool:
    """Whether ``found`` has all that is wanted; objects in it may have fields of a later API beside."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and contains(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(contains(one, other) for one, other in zip(found, wanted, strict=True))
    return bool(found == wanted)


def _condition(webhook: Webhook) -> str:
    """In CEL: a new object, or a change of a field that defaults or rules read (``api.admission``)."""
    fields = (*webhook.rules.fields, *(_MARKS if webhook.stage is Stage.MUTATING else ()))
    changes = (f"{_value('object', field)} != {_value('oldObject', field)}" for field in fields)
    return " || ".join(["request.operation != 'UPDATE'", *changes])


def _in_namespace(pattern: str) -> str:
    if pattern.endswith("*"):
        return f"request.namespace.startsWith('{pattern[:-1]}')"
    return f"request.namespace == '{pattern}'"


def _value(of: str, field: str) -> str:
    return f"(has({of}.{field}) ? {of}.{field} : {{}})"


def _problem(url: str) -> str:
    """What is wrong with the URL, as a part of a sentence; empty for nothing."""
    try:
        parts = urlsplit(url)
        found = parts.hostname, parts.port
    except ValueError:
        return "must be https://HOST:PORT"
    if parts.scheme != "https" or not found[0]:
        return "must be https://HOST:PORT"
    if parts.username or parts.password or parts.query or parts.fragment or parts.path not in ("", "/"):
        return "has a host and a port only"
    return ""


CONFIGURATIONS = (
    Rule(
        GROUP,
        (MUTATING.resource.plural, VALIDATING.resource.plural),
        ("get", "patch"),
        "which writes API servers ask about, where, and whom they trust",
        everywhere=True,
        names=(NAME,),
    ),
)

KEYS = (
    Rule("", ("secrets",), ("create",), "the first replica makes the keys"),
    Rule(
        "", ("secrets",), ("get", "patch"), "all replicas serve with them, and one renews them", names=(NAME,)
    ),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"webhooks-rbac.yaml": HEADER + as_yaml(manifest())}


def manifest() -> list[dict[str, Any]]:
    """The roles of a process with webhooks, bound to our account."""
    return [
        *granted("ClusterRole", NAME, CONFIGURATIONS),
        *granted("Role", NAME, KEYS, namespace=NAMESPACE),
    ]
