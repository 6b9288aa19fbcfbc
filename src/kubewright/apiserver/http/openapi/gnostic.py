"""OpenAPI version 2 in protobuf: as little of it as kubectl needs.

Theory.      kubectl asks for it in one case: before it sends what stood in a ``kind: List``, it checks
             the items by this document, and lets through what the document does not name. Ours
             names nothing, so the check is left to the server, which does it anyway.
Source       gnostic's ``openapiv2.Document``: field 1 is ``swagger``, 2 ``info``, 8 ``paths``.
"""

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer is called: the name that is asked for is no valid media type."""


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field; all of ours are shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


_INFO = _field(1, b"kubewright") + _field(2, b"v1")
DOCUMENT = _field(1, b"2.0") + _field(2, _INFO) + _field(8, b"")
