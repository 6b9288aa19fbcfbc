"""Kubernetes quantities (``500m``, ``1.5Gi``, ``2e3``): read without loss.

Theory.      A quantity is a decimal number with a suffix that is a power of ten, a power of 1024,
             or an exponent. Two texts may mean the same amount, so they are compared as numbers:
             ``parse`` returns a ``Decimal``. Like Kubernetes, anything finer than a billionth is
             rounded away from zero.
Invariants.  Pure; never a float.
Source       k8s.io/apimachinery resource.Quantity, as documented.
"""

import re
from decimal import ROUND_UP, Context, Decimal, localcontext

_SHAPE = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?")
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: dict[str, int] = {
    suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_NANO = Decimal("1e-9")
_EXACT = Context(prec=1200, rounding=ROUND_UP)
_LONGEST = 128


def parse(quantity: str | int) -> Decimal:
    """The amount that a quantity stands for.

    Raises:
        ValueError: the text is not a quantity; the message quotes it.
    """
    text = str(quantity)
    found = _SHAPE.fullmatch(text) if len(text) <= _LONGEST and text.isascii() else None
    if found is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity; write it like 2, 500m, 8Gi or 1e3")
    number, suffix = Decimal(found[1]), found[2] or ""
    with localcontext(_EXACT):
        if suffix in _TWOS:
            value = number * _TWOS[suffix]
        else:
            value = number.scaleb(_TENS[suffix] if suffix in _TENS else int(suffix[1:]))
        return value.quantize(_NANO).normalize()
