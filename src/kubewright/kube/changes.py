"""What listeners of an informer are told: one object changed from this to that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubewright.kube.header import Header
from kubewright.wire.gvk import Key

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """``old`` is None for an object that is new to us, ``new`` for one that is gone.

    An object that was deleted and made again under its name is told as two changes. Between two
    changes that we hear of, others may have happened: only ``new`` is the truth.
    """

    key: Key
    old: Header | None
    new: Header | None
    _decode: Callable[[Header], T]

    def before(self) -> T | None:
        """The object as it was; decoded now.

        Raises:
            Undecodable: the object does not have the form of its kind.
        """
        return None if self.old is None else self._decode(self.old)

    def after(self) -> T | None:
        """The object as it is; decoded now.

        Raises:
            Undecodable: the object does not have the form of its kind.
        """
        return None if self.new is None else self._decode(self.new)
