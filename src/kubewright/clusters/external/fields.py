"""Where provider objects have what the core reads: the table of the contract.

Theory.      Core and providers agree on paths and types, not on code. The path of a field depends on the
             contract that the object's version follows. Providers are other people's programs, so a field of
             another type counts as absent.
Contracts.   A provider labels its CRDs with the versions that follow a contract: ``cluster.x-k8s.io/v1beta1:
             v1alpha4_v1beta1``. Of those the preferred one is used, whatever version the reference names,
             and the reference is not rewritten: users keep it under version control. The core's own contract
             goes first. A provider that follows only the next one is read by that one's fields.
Invariants.  Pure; nothing here raises. Objects are decoded JSON: dicts and lists.
Called by    ``object``, and the decisions of ``cluster`` and ``machine``.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kubewright.api.cluster.names import CONTRACT, CONTRACT_LABEL_PREFIX
from kubewright.api.meta import Json
from kubewright.runtime.references.reference import Version
from kubewright.wire.gvk import crd_name, preferred


class Field(NamedTuple):
    """One fact and its path by contract; an empty path: that contract has no such fact."""

    v1beta1: str
    v1beta2: str

    def path(self, contract: str) -> str:
        """The path in objects of this contract."""
        return self.v1beta1 if contract == CONTRACT else self.v1beta2


def same(path: str) -> Field:
    """A field that every contract has in one place."""
    return Field(path, path)


FAILURE_REASON = Field("status.failureReason", "")
FAILURE_MESSAGE = Field("status.failureMessage", "")
ERROR_REASON = Field("status.errorReason", "")
ERROR_MESSAGE = Field("status.errorMessage", "")
"""What v1alpha2 called the failure."""

# Infrastructure of a cluster
CLUSTER_READY = Field("status.ready", "status.initialization.provisioned")
CONTROL_PLANE_ENDPOINT = same("spec.controlPlaneEndpoint")
API_ENDPOINTS = same("status.apiEndpoints")
"""Where v1alpha2 had the endpoint: a list, of which the first counts."""
FAILURE_DOMAINS = same("status.failureDomains")
"""A map by name in v1beta1, a list of structs with a name in v1beta2."""

# Infrastructure of a machine
MACHINE_READY = Field("status.ready", "status.initialization.provisioned")
PROVIDER_ID = same("spec.providerID")
FAILURE_DOMAIN = Field("spec.failureDomain", "status.failureDomain")
ADDRESSES = same("status.addresses")
INTERRUPTIBLE = same("status.interruptible")

# Bootstrap configuration
BOOTSTRAP_READY = Field("status.ready", "status.initialization.dataSecretCreated")
DATA_SECRET_NAME = same("status.dataSecretName")
BOOTSTRAP_DATA = Field("status.bootstrapData", "")
"""The data itself, as providers of v1alpha2 wrote it."""

# Control plane
CONTROL_PLANE_READY = Field("status.ready", "status.initialization.controlPlaneInitialized")
CONTROL_PLANE_INITIALIZED = Field("status.initialized", "status.initialization.controlPlaneInitialized")
EXTERNALLY_MANAGED = same("status.externalManagedControlPlane")
CONTROL_PLANE_VERSION = same("status.version")

READY = (CLUSTER_READY, MACHINE_READY, BOOTSTRAP_READY, CONTROL_PLANE_READY)
"""All that says that a provider has done its part; an object has one of them, as its kind has one part."""


def value(obj: Mapping[str, Json] | None, field: Field, contract: str) -> Json:
    """The value at the path of a field; None where there is none."""
    found: Json = obj
    path = field.path(contract)
    for name in path.split(".") if path else ("",):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def text(obj: Mapping[str, Json] | None, field: Field, contract: str) -> str:
    """A string; empty where there is none."""
    found = value(obj, field, contract)
    return found if isinstance(found, str) else ""


def flag(obj: Mapping[str, Json] | None, field: Field, contract: str) -> bool:
    """A bool; False where there is none."""
    return value(obj, field, contract) is True


def struct(obj: Mapping[str, Json] | None, field: Field, contract: str) -> Mapping[str, Json]:
    """A struct or map; empty where there is none."""
    found = value(obj, field, contract)
    return found if isinstance(found, dict) else {}


def structs(obj: Mapping[str, Json] | None, field: Field, contract: str) -> tuple[Mapping[str, Json], ...]:
    """The structs of a list; what is none is left out."""
    found = value(obj, field, contract)
    return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()


NEXT_CONTRACT = "v1beta2"
CONTRACTS = (CONTRACT, NEXT_CONTRACT)
"""The contracts that the core can read, its own first."""

SEPARATOR = "_"


class Contracts:
    """The ``runtime.references.reference.VersionPolicy`` of Cluster API."""

    def crd_name(self, group: str, kind: str) -> str:
        """The name that Cluster API gives the CRD of a kind."""
        return crd_name(group, kind)

    def choose(self, labels: Mapping[str, str]) -> Version | str:
        """The version to use of a CRD with these labels, or why there is none, as a clause."""
        for contract in CONTRACTS:
            named = labels.get(f"{CONTRACT_LABEL_PREFIX}{contract}", "")
            if (version := preferred(named.split(SEPARATOR))) is not None:
                return Version(version, contract)
        label = f"{CONTRACT_LABEL_PREFIX}{CONTRACT}"
        if label in labels:
            return f"names no version in its label {label}: {labels[label]!r}"
        return f"has no versions matching contract {CONTRACT}: it lacks the label {label}"
