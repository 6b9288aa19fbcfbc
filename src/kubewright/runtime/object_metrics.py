"""Families of gauges about the objects of one kind, read from a cache at the moment of a scrape.

Theory.      A world lists its families as values: the kind, the name, the labels, and a pure function from
             the headers of a cache to rows. No reconciliation does work for them, and of an object only the
             fields are decoded that a family needs. A series ends with its object: nothing remembers it.
Invariants.  An object that cannot be read is left out: a scrape never fails because of one.
Called by    ``clusters.metrics``, ``machines.metrics``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kubewright.api.kinds import Kind
from kubewright.kube.header import Header
from kubewright.kube.informer import Informer, Informers
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.shard import WHOLE, Shard

D = TypeVar("D")

Row = tuple[tuple[str, ...], float]
"""The values of a family's labels, and its value."""

Rows = Callable[[Iterable[Header]], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Family:
    """A family of gauges about the objects of one kind."""

    kind: Kind[Any]
    name: str
    help: str
    labels: tuple[str, ...]
    rows: Rows


def decoded(headers: Iterable[Header], decoder: msgspec.json.Decoder[D]) -> Iterator[tuple[Header, D]]:
    """The objects of a cache, with the fields that the decoder knows; unreadable objects are left out."""
    for header in headers:
        try:
            yield header, decoder.decode(header.data)
        except msgspec.DecodeError:
            continue


def register(
    metrics: Metrics,
    caches: Informers,
    families: Iterable[Family],
    kinds: Iterable[Kind[Any]],
    shard: Shard = WHOLE,
) -> None:
    """Register the families of these kinds; each scrape reads them, about the objects of ``shard``, from the
    caches of the controllers."""
    wanted = {kind.resource for kind in kinds}
    for family in families:
        if family.kind.resource in wanted:
            rows = _rows_of(family, caches.get(family.kind), shard)
            metrics.gauge(family.name, family.help, family.labels, rows)


def _rows_of(family: Family, informer: Informer[Any], shard: Shard) -> Callable[[], Iterable[Row]]:
    return lambda: family.rows(header for header in informer.headers() if shard.has(header.uid))
