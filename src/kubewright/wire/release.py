"""Which Kubernetes we speak: the one place that says so.

The embedded server calls itself this release, the schemas of its built-in kinds were taken from it,
``make kube`` builds it as the judge of the tests (tools/kube/go.mod pins the same one, which a test
sees to), and simulated kubelets say that they are of it.
"""

KUBERNETES = "v1.36.3"
"""As ``kubectl version`` shows it."""
