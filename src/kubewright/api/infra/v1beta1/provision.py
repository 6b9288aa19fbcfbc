"""The group of the four kinds, and the fields of each of them that a driver reads."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.meta import ATOMIC_MAP, PRESERVE, Json, Value, doc
from kubewright.wire.gvk import Resource

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1beta1"


def resource(kind: str, short_name: str) -> Resource:
    """One of the four, as the API server serves it."""
    return Resource(GROUP, VERSION, f"{kind.lower()}s", kind, short_names=(short_name,))


class LocalSecretReference(Value, frozen=True, kw_only=True):
    """A Secret in the namespace of the object that names it."""

    name: Annotated[str, doc("The name of the Secret.", required=True)] = ""


class Provision(Value, frozen=True, kw_only=True):
    """What a driver is told. Its fields stand directly in the spec of a machine or a cluster."""

    driver: Annotated[
        str,
        doc("The driver's name; of a machine, its cluster's if empty. If both are empty: the program's own."),
    ] = ""
    provider_spec: Annotated[
        Mapping[str, Json],
        doc(
            "What the driver needs to make it, in the driver's own words; nothing else looks inside.",
            **PRESERVE,
        ),
    ] = field(default_factory=dict)
    credentials_ref: Annotated[
        LocalSecretReference | None,
        doc(
            "The Secret with the cloud's credentials, in the same namespace; of a machine, its cluster's if "
            "unset.",
            **ATOMIC_MAP,
        ),
    ] = None
