"""The Kubernetes release that this project is compatible with, defined once.

The embedded server reports this release, the schemas of its built-in kinds were generated from it,
``make kube`` builds it as the reference for the tests (a test checks that tools/kube/go.mod pins the
same one), and simulated kubelets report it.
"""

KUBERNETES = "v1.36.3"
"""As ``kubectl version`` shows it."""

_OURS = "+kubewright-"


def version_of(build: str) -> str:
    """The ``gitVersion`` of the embedded server of this build: the release, and a suffix of ours."""
    return f"{KUBERNETES}{_OURS}{build}"


def is_ours(version: str) -> bool:
    """Whether a server that reports this ``gitVersion`` is an embedded one of ours."""
    return _OURS in version
