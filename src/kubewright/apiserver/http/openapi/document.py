"""Whole documents: version 3 of one group version, version 2 of everything."""

from typing import Any

from kubewright.apiserver.http.openapi.paths import paths
from kubewright.apiserver.http.openapi.shapes import V2, V3, definitions
from kubewright.apiserver.registry.kind import ServedKind

Json = dict[str, Any]
_INFO = {"title": "Kubewright", "version": "v1"}


def version_three(kinds: tuple[ServedKind, ...]) -> Json:
    """The OpenAPI 3.0 document of the kinds of one group version."""
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths(kinds),
        "components": {"schemas": definitions(kinds, V3)},
    }


def swagger(kinds: tuple[ServedKind, ...]) -> Json:
    """The OpenAPI 2.0 document of all kinds."""
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths(kinds, V2),
        "definitions": definitions(kinds, V2),
    }
