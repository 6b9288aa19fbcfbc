"""Patterns of custom kinds: Go's syntax (RE2), written as the validator's library reads it.

Theory.      Both match in linear time, and their syntaxes are alike but for this: in Go ``\\d``, ``\\s``,
             ``\\w`` and ``\\b`` know ASCII only; ``\\Q…\\E`` quotes; ``\\101`` and ``\\a`` are letters;
             there are classes with names (``[[:alpha:]]``), and none within others; a brace that counts
             nothing is a letter. Each token of a pattern is therefore written anew. What it takes to compile
             a pattern follows from its tokens too, so that is known before any is compiled: three thousand of
             ``\\p{L}{1,60}`` take twenty seconds, and a definition has room for ten times as many.
Invariants.  Pure. A pattern that Go refuses raises ``ValueError``, here or when the library compiles it.
Called by    ``structural``; ``registry.definitions`` adds up the costs.
"""

import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from kubewright.base.limits import remembered

OPTIONS = jsonschema_rs.RegexOptions()
"""The engine without look-around and back references."""

MOST_REPETITIONS = 1_000
_LAST = 0x10FFFF
_DIGIT, _UPPER, _LOWER = "09", "AZ", "az"
_PERL: Mapping[str, tuple[str, ...]] = {
    "d": (_DIGIT,),
    "s": ("\t\n", "\f\r", "  "),
    "w": (_DIGIT, _UPPER, "__", _LOWER),
}
_POSIX: Mapping[str, tuple[str, ...]] = {
    "alnum": (_DIGIT, _UPPER, _LOWER),
    "alpha": (_UPPER, _LOWER),
    "ascii": ("\0\x7f",),
    "blank": ("\t\t", "  "),
    "cntrl": ("\0\x1f", "\x7f\x7f"),
    "digit": (_DIGIT,),
    "graph": ("!~",),
    "lower": (_LOWER,),
    "print": (" ~",),
    "punct": ("!/", ":@", "[`", "{~"),
    "space": ("\t\r", "  "),
    "upper": (_UPPER,),
    "word": _PERL["w"],
    "xdigit": (_DIGIT, "AF", "af"),
}
"""Named classes: their ranges in order, each by its first and last letter."""
_LETTERS: Mapping[str, int] = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_FOLDS = re.compile(r"\(\?[a-zA-Z]*i")
_COUNT = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_GROUP = re.compile(r"\(\?(?:P?<[A-Za-z0-9_]+>|[imsU]*(?:-[imsU]+)?[:)])")
_PROPERTY = re.compile(r"\\[pP](?:([A-Z])|\{(\^?)([A-Za-z_]+)\})")
_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,8})\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")


UNITS_A_SECOND = 10_000_000
"""The unit of costs is what a letter takes of a pattern that is compiled: about a tenth of a microsecond."""
_EACH, _WRITTEN, _ASCII, _OTHER, _MOST_LETTERS, _BY_PROPERTY, _FOLDED = 200, 10, 1, 10, 30, 3_000, 8
"""The cost of a pattern in itself; of each letter that is written; of a letter or a range, of ASCII and
beyond; of all letters but a few, as ``.``; of ``\\p{...}``; and the factor where case does not count. As
measured."""
_COMPARED = 50
"""Where case does not count, each letter of a range is looked up, once however often the range is repeated;
so many in a unit. ``(?i)[\\x{80}-\\x{10ffff}]`` takes two milliseconds."""
_MOST_COST = 10**12
"""No pattern costs more: a thousand groups in each other, each a thousand times, cannot be counted."""


@remembered(4_096)
def rewritten(pattern: str) -> str:
    """The pattern as the library reads it.

    Raises:
        ValueError: Go would refuse it.
    """
    return _Scanner(pattern).whole()


@remembered(4_096)
def cost(pattern: str) -> int:
    """What it takes to compile a pattern, in units; nothing for one that is refused before."""
    scanner = _Scanner(pattern)
    try:
        scanner.whole()
    except ValueError:
        return 0
    return least_cost(pattern) + scanner.cost


def least_cost(pattern: str) -> int:
    """What a pattern costs at least, without a look at its tokens."""
    return _EACH + _WRITTEN * len(pattern)


@remembered(4_096)
def is_pattern(pattern: str) -> bool:
    """Whether a schema's ``pattern`` can be read."""
    try:
        compiled({"pattern": rewritten(pattern)}, {})
    except ValueError:
        return False
    return True


def compiled(schema: Mapping[str, Any], options: Mapping[str, Any]) -> jsonschema_rs.Draft4Validator:
    """A validator of a schema whose patterns are rewritten.

    The schema goes in by reference: the library holds one that is given directly to the syntax of ECMAScript.

    Raises:
        ValueError: the library refuses it.
    """
    place = "urn:kind"
    registry = jsonschema_rs.Registry([(place, dict(schema))], draft=jsonschema_rs.Draft4)
    return jsonschema_rs.Draft4Validator(
        {"$ref": place}, registry=registry, pattern_options=OPTIONS, **options
    )


class _Scanner:
    """Writes one pattern anew, token by token."""

    def __init__(self, pattern: str) -> None:
        self._text, self._at = pattern, 0
        self._costs, self._last = [0], 0  # of the open groups, the innermost last; of the last token or group
        self._folded, self._compared = (_FOLDED if _FOLDS.search(pattern) else 1), 0

    @property
    def cost(self) -> int:
        """What it takes to compile what is written."""
        return sum(self._costs) + self._compared // _COMPARED

    def _compare(self, letters: int) -> None:
        """A range of so many letters is in a class."""
        if self._folded > 1:
            self._compared += letters

    def _pay(self, cost: int) -> None:
        self._last = min(self._last + cost, _MOST_COST)
        self._costs[-1] = min(self._costs[-1] + cost, _MOST_COST)

    def whole(self) -> str:
        out, repeated = [], False
        while self._at < len(self._text):
            count = self._count()
            if count and repeated:
                raise ValueError("invalid nested repetition operator")
            out.append(count or self._costly_token())
            repeated = bool(count)
        return "".join(out)

    def _costly_token(self) -> str:
        """One token, which the next repetition repeats; after a ``)`` that is its whole group."""
        self._last = 0
        token = self._token()
        if token == ")" and len(self._costs) > 1:
            self._pay_group()
        elif token.startswith("(") and not token.endswith(")"):
            self._costs.append(0)
        return token

    def _pay_group(self) -> None:
        group = self._costs.pop()
        self._last = 0
        self._pay(group)

    def _count(self) -> str:
        """A repetition, with the mark that makes it lazy; empty if none stands here."""
        found = _COUNT.match(self._text, self._at)
        if found is not None:
            if any(int(number) > MOST_REPETITIONS for number in found.groups() if number):
                raise ValueError("invalid repeat count")
            count = found[0]
            self._pay(self._last * (max(int(number) for number in found.groups() if number) - 1))
        else:
            count = self._text[self._at] if self._text[self._at] in "*+?" else ""
        self._at += len(count)
        if count and self._text[self._at : self._at + 1] == "?":
            self._at += 1
            count += "?"
        return count

    def _token(self) -> str:
        letter = self._text[self._at]
        if letter == "\\":
            return self._escape()
        if letter == "[":
            return self._class()
        if letter == "(" and self._text[self._at + 1 : self._at + 2] == "?":
            found = _GROUP.match(self._text, self._at)
            if found is None:
                raise ValueError("invalid or unsupported Perl syntax")
            self._at = found.end()
            return found[0]
        self._at += 1
        self._pay(_MOST_LETTERS if letter == "." else self._cost_of(letter))
        return letter if letter in "()|^$." else _literal(letter)

    def _cost_of(self, letter: str) -> int:
        """What a letter takes, or a range that ends with it."""
        return (_ASCII if letter.isascii() else _OTHER) * self._folded

    def _escape(self) -> str:
        name = self._text[self._at + 1 : self._at + 2]
        if name in ("Q", "E"):
            start = self._at = self._at + 2
            if name == "E":
                return ""
            end = self._text.find("\\E", start)
            self._at = len(self._text) if end < 0 else end + 2
            quoted = self._text[start : None if end < 0 else end]
            self._pay(sum(map(self._cost_of, quoted)))
            return "".join(map(_literal, quoted))
        if name in ("b", "B"):
            self._at += 2
            return rf"(?-u:\{name})"
        if name in ("A", "z"):
            self._at += 2
            return rf"\{name}"
        if named := self._named():
            return f"[{named}]"
        letter = self._letter()
        self._pay(self._cost_of(letter))
        return _literal(letter)

    def _named(self) -> str:
        """A class that has a name, as a part of a class; empty if none stands here."""
        name = self._text[self._at + 1 : self._at + 2]
        if name and name.lower() in _PERL:
            self._at += 2
            self._pay(_MOST_LETTERS if name.isupper() else len(_PERL[name]) * self._folded)
            self._compare(_LAST if name.isupper() else 0)
            return _ranges(_PERL[name.lower()], negated=name.isupper())
        found = _PROPERTY.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        self._pay(_BY_PROPERTY)
        self._compare(_LAST)
        negated = (found[0][1] == "P") != bool(found[2])
        return rf"\{'P' if negated else 'p'}{{{found[1] or found[3]}}}"

    def _letter(self) -> str:
        """One letter of a class, or after a backslash."""
        letter = self._text[self._at : self._at + 1]
        if letter != "\\":
            self._at += 1
            return letter
        found = _CODE.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            return chr(int(found[1] or found[2] or found[3], 8 if found[3] else 16))
        name = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if name in _LETTERS:
            return chr(_LETTERS[name])
        if not name or name.isalnum() or not name.isascii():
            raise ValueError(f"invalid escape sequence: \\{name}")
        return name

    def _class(self) -> str:
        self._at += 1
        out = ["["]
        if self._text.startswith("^", self._at):
            out.append("^")
            self._at += 1
            self._pay(_MOST_LETTERS)
        first = self._at
        while self._at == first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise ValueError("missing closing ]")
            out.append(self._part())
        self._at += 1
        return "".join([*out, "]"])

    def _part(self) -> str:
        """A named class, a letter or a range of letters inside of a class."""
        if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at)) >= 0:
            name = self._text[self._at + 2 : end]
            inside = _POSIX.get(name.removeprefix("^"))
            if inside is None:
                raise ValueError(f"invalid character class range: [:{name}:]")
            self._at = end + 2
            self._pay(_MOST_LETTERS if name.startswith("^") else len(inside) * self._folded)
            self._compare(_LAST if name.startswith("^") else 0)
            return _ranges(inside, negated=name.startswith("^"))
        if self._text.startswith("\\", self._at) and (named := self._named()):
            return named
        low = high = self._letter()
        if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._letter()
        if high < low:
            raise ValueError("invalid character class range")
        self._pay(self._cost_of(high))
        self._compare(ord(high) - ord(low))
        return _literal(low) if low == high else f"{_literal(low)}-{_literal(high)}"


def _ranges(ranges: tuple[str, ...], *, negated: bool) -> str:
    """The inside of a class; of a negated one all letters before, between and after the ranges."""
    pairs = [(ord(each[0]), ord(each[1])) for each in ranges]
    if negated:
        firsts = [0, *(high + 1 for _, high in pairs)]
        lasts = [*(low - 1 for low, _ in pairs), _LAST]
        pairs = [(first, last) for first, last in zip(firsts, lasts, strict=True) if first <= last]
    return "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in pairs)


def _literal(letter: str) -> str:
    """A letter that means itself, inside of a class and outside."""
    return letter if letter.isalnum() else f"\\x{{{ord(letter):X}}}"
