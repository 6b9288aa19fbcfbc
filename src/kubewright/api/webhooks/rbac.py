"""What a process may do that serves webhooks in a cluster: keep its keys, and say where it is.

Theory.      An account that may create any webhook configuration could read and change every write to the
             cluster. So ours may only change the two of its own name, which the installation creates empty
             (``deploy/clusters/webhooks.yaml``) and which go with it; and only the Secret of its name.
Invariants.  No rule lists or watches: the objects are read by their names.
Called by    ``make gen``, which writes ``deploy/clusters``. The requests are those of
             ``runtime.webhooks.keeper``.
"""

from typing import Any

from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.rbac import NAMESPACE, Rule, granted
from kubewright.api.webhooks.configurations import GROUP, MUTATING, NAME, VALIDATING

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
