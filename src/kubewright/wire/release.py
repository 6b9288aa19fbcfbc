"""Which Kubernetes we speak: the one place that says so.

The embedded server calls itself this release, the schemas of its built-in kinds were taken from it,
``make kube`` builds it as the judge of the tests (tools/kube/go.mod pins the same one, which a test
sees to), and simulated kubelets say that they are of it.
"""

KUBERNETES = "v1.36.3"
"""As ``kubectl version`` shows it."""

_OURS = "+kubewright-"


def version_of(build: str) -> str:
    """What the embedded server of this build calls itself: the release, and that it is ours."""
    return f"{KUBERNETES}{_OURS}{build}"


def is_ours(version: str) -> bool:
    """Whether a server that calls itself so is an embedded one of ours."""
    return _OURS in version
