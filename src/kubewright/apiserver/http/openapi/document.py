"""Whole documents: version 3 of one group version, version 2 of everything, and version 2 in protobuf.

Theory.      kubectl asks for protobuf in one case: before it sends what stood in a ``kind: List``, it checks
             the items by this document, and lets through what the document does not name. Ours
             names nothing, so the check is left to the server, which does it anyway.
Source       gnostic's ``openapiv2.Document``: field 1 is ``swagger``, 2 ``info``, 8 ``paths``.
"""

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


PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer is called: the name that is asked for is no valid media type."""


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field; all of ours are shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


_PROTOBUF_INFO = _field(1, b"kubewright") + _field(2, b"v1")
EMPTY = _field(1, b"2.0") + _field(2, _PROTOBUF_INFO) + _field(8, b"")
"""A document of version 2 that names nothing."""
