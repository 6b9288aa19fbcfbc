"""What only a Cluster reads from its infrastructure and control plane: endpoint and failure domains. Pure.

Invariants.  A value of a wrong type counts as absent: a provider wrote it, and a condition of the Cluster
             says what is waited for.
Source       capi.md §3.2; seed S2-13 (``status.apiEndpoints``, where v1alpha2 had the endpoint).
Called by    ``decide``, ``status``.
"""

from collections.abc import Mapping

import msgspec

from kubewright.api.cluster.v1beta1 import ApiEndpoint, FailureDomain
from kubewright.api.meta import Json, OwnerReference
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import External


def readable(external: External, owner: OwnerReference) -> bool:
    """Whether the status of an object is used: it exists, is neither paused nor being deleted, and no other
    owner controls it."""
    there = external.found is not None and not external.paused and not external.deleting
    return there and not external.other_controller(owner)


def endpoint_of(external: External) -> ApiEndpoint | None:
    """Where a provider says that the API server is; None while it says nothing of use."""
    places = (external.struct(fields.CONTROL_PLANE_ENDPOINT), *external.structs(fields.API_ENDPOINTS))
    found = (_endpoint(place) for place in places)
    return next((each for each in found if each is not None), None)


def failure_domains_of(external: External) -> Mapping[str, FailureDomain]:
    """The failure domains by name: a map in one contract, a list in the next. What is none is left out."""
    listed = {str(each.get("name", "")): each for each in external.structs(fields.FAILURE_DOMAINS)}
    found: dict[str, FailureDomain] = {}
    for name, each in (external.struct(fields.FAILURE_DOMAINS) or listed).items():
        try:
            found[name] = msgspec.convert(each, FailureDomain)
        except msgspec.ValidationError:
            continue
    return found


def _endpoint(place: Mapping[str, Json]) -> ApiEndpoint | None:
    host, port = place.get("host"), place.get("port")
    if isinstance(host, str) and host and isinstance(port, int) and 0 < port < 65_536:
        return ApiEndpoint(host=host, port=port)
    return None
