"""The group and version that all four kinds are served under."""

from kubewright.wire.gvk import Resource

GROUP = "machine.sapcloud.io"
VERSION = "v1alpha1"


def resource(plural: str, kind: str, short_name: str) -> Resource:
    """One of the four, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=(short_name,))
