"""Kubernetes quantities (``500m``, ``1.5Gi``, ``2e3``): read, compared and written, without loss.

Theory.      A quantity is a decimal number with a suffix that is a power of ten, a power of 1024,
             or an exponent. Two texts may mean the same amount; comparing them needs their value,
             so reading gives a ``Decimal``. Like Kubernetes, anything finer than a billionth is
             rounded away from zero.
Invariants.  Pure; never a float. ``parse(canonical(q)) == parse(q)``.
Source       k8s.io/apimachinery resource.Quantity, as documented.
"""

import re
from decimal import ROUND_UP, Context, Decimal, localcontext

_SHAPE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?")
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
        ValueError: the text is no quantity; the message quotes it.
    """
    text = str(quantity)
    found = _SHAPE.fullmatch(text) if len(text) <= _LONGEST and text.isascii() else None
    if found is None:
        raise ValueError(f"{text[:_LONGEST]!r} is no quantity; write it like 2, 500m, 8Gi or 1e3")
    number, suffix = Decimal(found[1]), found[2] or ""
    with localcontext(_EXACT):
        if suffix in _TWOS:
            value = number * _TWOS[suffix]
        else:
            value = number.scaleb(_TENS[suffix] if suffix in _TENS else int(suffix[1:]))
        return value.quantize(_NANO).normalize()


def compare(one: str | int, other: str | int) -> int:
    """Negative, zero or positive, as ``one`` is less than, the same as or more than ``other``.

    Raises:
        ValueError: either is no quantity.
    """
    left, right = parse(one), parse(other)
    return (left > right) - (left < right)


def canonical(quantity: str | int) -> str:
    """The shortest decimal form: an integer with the largest suffix that leaves it one (``1500m``, ``2k``).

    A binary suffix stays binary (``2048Mi`` is ``2Gi``).

    Raises:
        ValueError: the text is no quantity.
    """
    value = parse(quantity)
    if value == 0:
        return "0"
    if str(quantity).endswith("i") and value == value.to_integral_value():
        fitting = [suffix for suffix, size in _TWOS.items() if value % size == 0]
        return f"{value / _TWOS[fitting[-1]]:f}" + fitting[-1] if fitting else f"{value:f}"
    with localcontext(_EXACT):
        suffix = next(name for name in reversed(_TENS) if _is_whole(value.scaleb(-_TENS[name])))
        return f"{value.scaleb(-_TENS[suffix]):f}{suffix}"


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()
