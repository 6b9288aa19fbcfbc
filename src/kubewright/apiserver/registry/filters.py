"""Which objects a list or a watch selects: label selector, field selector, one name.

Theory.      A record has the labels and the key beside the bytes, so most filters decode nothing. Only a
             field selector on another field (``spec.nodeName``) decodes the object; where the kind has an
             index of that field, a list decodes only those that have the value.
"""

from dataclasses import dataclass
from functools import partial

from kubewright.apiserver.registry import codec
from kubewright.apiserver.registry.kind import ServedKind
from kubewright.apiserver.store import Having, Record
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.selectors import EVERYTHING, Selector

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclass(frozen=True, slots=True)
class Filter:
    """Both selectors must match."""

    kind: ServedKind
    labels: Selector = EVERYTHING
    fields: Selector = EVERYTHING

    def __call__(self, record: Record) -> bool:
        if self.labels and not self.labels.matches(record.labels):
            return False
        return not self.fields or self.fields.matches(self._fields_of(record))

    @property
    def name(self) -> str | None:
        """The only name that can match, when the field selector says so."""
        return self.fields.value_of(_NAME)

    @property
    def having(self) -> Having | None:
        """The only value of an indexed field that can match, when the field selector says so."""
        for name in self.kind.indexed:
            if (value := self.fields.value_of(name)) is not None:
                return Having(name, value, partial(codec.field_of, self.kind, name))
        return None

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def _fields_of(self, record: Record) -> dict[str, str]:
        namespace, _, name = record.key.rpartition("/")
        values = {_NAME: name, _NAMESPACE: namespace}
        if not self.fields.keys <= values.keys():
            values.update(self.kind.fields(codec.decode(self.kind, record)))
        return {key: values.get(key, "") for key in self.fields.keys}


def parse(kind: ServedKind, labels: str, fields: str) -> Filter:
    """Read both selectors.

    Raises:
        BadRequest: one is malformed, or asks for a field that the kind does not have.
    """
    wanted = selectors.parse_fields(fields)
    known = kind.fields({"metadata": {}})
    for requirement in wanted.requirements:
        if requirement.key not in (_NAME, _NAMESPACE) and requirement.key not in known:
            if known or kind.custom:
                raise BadRequest(f"field label not supported: {requirement.key}")
            raise BadRequest(
                f'"{requirement.key}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'
            )
    return Filter(kind, selectors.parse(labels), wanted)
