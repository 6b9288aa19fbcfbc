"""OpenAPI: what kinds look like, for ``kubectl explain``, ``apply`` and ``create``.

Theory.      Version 3 is one document per group version and an index of them. Each address in the
             index carries a hash of the document, so a client may cache it for ever.
             Version 2 is all kinds in one document. kubectl needs version 3; of version 2
             it asks for the protobuf form in one case, see ``EMPTY``.
Invariants.  Pure: the same kinds give the same bytes and the same hash.
Called by    ``http.app``; ``respond`` returns None for other paths.
Continues    in ``paths`` (the operations of a document), ``shapes`` (its schemas).
"""

import hashlib
from functools import lru_cache

import orjson

from kubewright.apiserver.http.discovery import groups_of, kinds_of
from kubewright.apiserver.http.openapi.paths import paths
from kubewright.apiserver.http.openapi.shapes import V2, V3, Json, definitions
from kubewright.apiserver.registry.kind import Catalog, ServedKind
from kubewright.wire.errors import NotAcceptable, to_status
from kubewright.wire.http import Response

_INFO = {"title": "Kubewright", "version": "v1"}
_FOREVER = "public, immutable, max-age=31536000"
_JSON = ("application/json", "application/*", "*/*", "")

PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer is called: the name that is asked for is no valid media type."""


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field; all of ours are shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


_PROTOBUF_INFO = _field(1, b"kubewright") + _field(2, b"v1")
EMPTY = _field(1, b"2.0") + _field(2, _PROTOBUF_INFO) + _field(8, b"")
"""A document of version 2 without kinds.

kubectl asks for protobuf in one case: before it sends the items of a ``kind: List``, it validates them
by this document, and accepts kinds that the document does not contain. So validation is left to the server,
which does it anyway. Source: gnostic's ``openapiv2.Document``: field 1 is ``swagger``, 2 ``info``,
8 ``paths``.
"""


def respond(
    catalog: Catalog, path: str, accept: str, if_none_match: str = "", known_hash: str = ""
) -> Response | None:
    """The answer to a GET of an OpenAPI path; None for other paths, and for groups that are not served.

    ``known_hash`` is the query parameter ``hash``: when it is the document's, the answer may be
    cached for ever; when it is an old one, the client is redirected to the new address.
    """
    if path == "/openapi/v3":
        return _acceptable(accept) or Response(200, orjson.dumps(_index(catalog)))
    if path == "/openapi/v2" and accept.startswith(PROTOBUF_ASKED):
        return Response(200, EMPTY, PROTOBUF)
    if path == "/openapi/v2":
        return _acceptable(accept) or _document(swagger_bytes(tuple(catalog)), if_none_match, "", path)
    kinds = _kinds_at(catalog, path.removeprefix("/openapi/v3/")) if path.startswith("/openapi/v3/") else ()
    if not kinds:
        return None
    return _acceptable(accept) or _document(document_bytes(kinds), if_none_match, known_hash, path)


def _acceptable(accept: str) -> Response | None:
    """None when the client takes JSON, else the refusal."""
    if any(media.partition(";")[0].strip() in _JSON for media in accept.split(",")):
        return None
    error = NotAcceptable("only the following media types are accepted: application/json")
    return Response(406, orjson.dumps(to_status(error)))


def _document(found: tuple[bytes, str], if_none_match: str, known_hash: str, path: str) -> Response:
    body, digest = found
    headers = {"etag": f'"{digest}"', "vary": "Accept"}
    if known_hash and known_hash != digest:
        return Response(301, headers=headers | {"location": f"{path}?hash={digest}"})
    headers["cache-control"] = _FOREVER if known_hash else "no-cache, private"
    if digest in if_none_match:
        return Response(304, headers=headers)
    return Response(200, body, headers=headers)


def _index(catalog: Catalog) -> dict[str, object]:
    found = {}
    for group, versions in groups_of(catalog).items():
        for version in versions:
            where = f"apis/{group}/{version}" if group else f"api/{version}"
            _, digest = document_bytes(tuple(kinds_of(catalog, group, version)))
            found[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={digest}"}
    return {"paths": found}


def _kinds_at(catalog: Catalog, where: str) -> tuple[ServedKind, ...]:
    match where.split("/"):
        case ["api", version]:
            return tuple(kinds_of(catalog, "", version))
        case ["apis", group, version]:
            return tuple(kinds_of(catalog, group, version))
    return ()


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


@lru_cache(maxsize=256)
def document_bytes(kinds: tuple[ServedKind, ...]) -> tuple[bytes, str]:
    """The version 3 document of a group version, and its hash."""
    return _hashed(orjson.dumps(version_three(kinds)))


@lru_cache(maxsize=4)
def swagger_bytes(kinds: tuple[ServedKind, ...]) -> tuple[bytes, str]:
    """The version 2 document of everything, and its hash."""
    return _hashed(orjson.dumps(swagger(kinds)))


def _hashed(body: bytes) -> tuple[bytes, str]:
    return body, hashlib.sha256(body).hexdigest().upper()
