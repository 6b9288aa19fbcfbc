"""Kubernetes quantities (``500m``, ``1.5Gi``, ``2e3``): read without loss.

Theory.      A quantity is a decimal number with a suffix that is a power of ten, a power of 1024,
             or an exponent. Two texts may mean the same amount, so they are compared as numbers:
             ``parse`` returns a ``Decimal``. Like Kubernetes, anything finer than a billionth is
             rounded away from zero, and what is beyond 2^63-1 counts as that.
Invariants.  Pure; never a float.
Source       k8s.io/apimachinery resource.Quantity, as documented.
"""

import re
from decimal import ROUND_UP, Context, Decimal, localcontext

_SHAPE = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: dict[str, int] = {
    suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}
_NANO = Decimal("1e-9")
_EXACT = Context(prec=1200, rounding=ROUND_UP)
_LONGEST = 128
_GREATEST = Decimal(2**63 - 1)
_FURTHEST = 400
"""Exponents beyond this make any number of _LONGEST digits greater than _GREATEST, or less than _NANO."""


def parse(quantity: str | float) -> Decimal:
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
            value = number.scaleb(_TENS[suffix] if suffix in _TENS else _exponent(suffix))
        return max(-_GREATEST, min(value, _GREATEST)).quantize(_NANO).normalize()


def _exponent(suffix: str) -> int:
    return max(-_FURTHEST, min(int(suffix[1:]), _FURTHEST))


def shown(quantity: str | float) -> str:
    """A quantity as Go writes it: the greatest suffix without a fraction; powers of 1024 stay such.

    What is no quantity comes back as text.
    """
    text = str(quantity)
    try:
        value = parse(quantity)
    except ValueError:
        return text
    if text.endswith("i"):
        return text
    for suffix, scale in (("", 0), ("m", 3), ("u", 6), ("n", 9)):
        if not (scaled := value.scaleb(scale)) % 1:
            return _with_thousands(int(scaled)) if not suffix else f"{int(scaled)}{suffix}"
    return text


def _with_thousands(value: int) -> str:
    suffixes = iter(("k", "M", "G", "T", "P", "E"))
    suffix = ""
    while value and value % 1000 == 0:
        value, suffix = value // 1000, next(suffixes, "")
        if suffix == "E":
            break
    return f"{value}{suffix}"


def written(amount: Decimal, like: str | float) -> str:
    """An amount as a quantity in the manner of another one: with powers of 1024 where that has them."""
    whole = int(amount)
    if not str(like).endswith("i") or amount != whole or not whole:
        return shown(str(amount))
    found = [(suffix, size) for suffix, size in _TWOS.items() if whole % size == 0]
    suffix, size = max(found, key=lambda each: each[1], default=("", 1))
    return f"{whole // size}{suffix}"
