"""Prometheus' rules as the object that its operator reads: deploy/monitoring/prometheus-rule.yaml.

Theory.      The rules are written once, as Prometheus itself reads them (``rules.yaml``), because promtool
             checks and tests that form. The operator wants the same groups as the spec of a PrometheusRule.
Invariants.  The text of the rules is taken over line by line, comments included.
Called by    tools/gen.py.
"""

from pathlib import Path

from kubewright.api.machine.manifests import HEADER
from kubewright.api.rbac import ACCOUNT, NAMESPACE

FOLDER = Path(__file__).parents[1] / "deploy" / "monitoring"
HEAD = f"""{HEADER}apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {ACCOUNT}
  namespace: {NAMESPACE}
  labels: {{app.kubernetes.io/name: kubewright}}
spec:
"""


def files() -> dict[str, str]:
    """The file's name and text."""
    lines = (FOLDER / "rules.yaml").read_text().splitlines()
    return {"prometheus-rule.yaml": HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines)}
