"""What an expression costs at most, before it runs.

Theory.      Kubernetes refuses a definition whose rules could take too long on the largest object that its
             schema allows. The unit is what a select takes. cel-go walks the checked tree and gives every
             part a range of costs and of sizes; which numbers come out decides which definitions are taken,
             so all of it is as there, odd numbers included: a number of a schema has the size 0, and a
             comparison of two costs nothing.
Invariants.  Pure. Sums and products end at 2^64 - 1.
Source       cel-go 0.26 and kube-apiserver 1.36, observed in tests/conformance/test_api_rules.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubewright.apiserver.cel.syntax import ACCUMULATOR, Loop, Node
from kubewright.apiserver.cel.types import DYN, Type

END = 2**64 - 1
BY_LETTER, BY_PATTERN = 0.1, 0.25
LIST, MAP = 10, 30
_FORMAT_PATTERN = 128


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most of a cost or of a size."""

    least: int
    most: int

    def __add__(self, other: "Range") -> "Range":
        return Range(min(self.least + other.least, END), min(self.most + other.most, END))

    def __mul__(self, other: "Range") -> "Range":
        return Range(min(self.least * other.least, END), min(self.most * other.most, END))

    def __or__(self, other: "Range") -> "Range":
        return Range(min(self.least, other.least), max(self.most, other.most))

    def by(self, factor: float) -> "Range":
        return Range(_by(self.least, factor), _by(self.most, factor))


def _by(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), END)


def _fixed(number: int) -> Range:
    return Range(number, number)


ONE, ZERO, UNKNOWN = Range(1, 1), Range(0, 0), Range(0, END)
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """Sizes of keys and values of a list or a map that an expression makes."""

    kind: str
    key: Range
    value: Range

    def joined(self, other: "Entries | None") -> "Entries | None":
        return None if other is None else Entries(self.kind, self.key | other.key, self.value | other.value)


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Range | None
    entries: Entries | None


def estimate(tree: Node, root: Type) -> Range:
    """The cost of a checked expression; ``root`` is the type of self."""
    return _Coster(root).cost(tree)


class _Coster:
    def __init__(self, root: Type) -> None:
        self._root = root
        self._paths: dict[Node, Path] = {}
        self._sizes: dict[Node, Range] = {}
        self._entries: dict[Node, Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        match node.kind:
            case "const" if isinstance(node.value, Type):
                self._paths[node] = (node.name,)
                return ONE
            case "const":
                return ZERO
            case "ident":
                local = self._local(node.name)
                self._paths[node] = (node.name,) if local is None else local.path
                return ONE
            case "select":
                return self._select(node)
            case "call":
                return self._call(node)
            case "list" | "map":
                return self._aggregate(node)
        assert node.loop is not None
        return self._bind(node, node.loop) if node.loop.macro == "bind" else self._loop(node, node.loop)

    def _local(self, name: str) -> _Local | None:
        found = self._locals.get(name)
        return found[-1] if found else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _select(self, node: Node) -> Range:
        total = self.cost(node.args[0])
        if node.tests:
            return total
        self._paths[node] = (*self._path(node.args[0]), node.name)
        return total + ONE if _type(node.args[0]).kind in ("map", "struct", "param") else total

    def _aggregate(self, node: Node) -> Range:
        total = ZERO
        for each in node.args:
            total += self.cost(each)
        if node.kind == "list":
            self._entries[node] = Entries("list", ONE, self._together(node.args))
            return total + _fixed(LIST)
        keys, items = self._together(node.args[::2]), self._together(node.args[1::2])
        self._entries[node] = Entries("map", keys, items)
        return total + _fixed(MAP)

    def _together(self, nodes: Sequence[Node]) -> Range:
        found = Range(END, 0) if nodes else ZERO
        for node in nodes:
            found |= self._known(node)
        return found

    def _loop(self, node: Node, loop: Loop) -> Range:
        total = self.cost(loop.over) + self.cost(loop.start)
        self._push(loop.accumulator, self._as_local(loop.start))
        for name, local in zip(loop.variables, self._variables(loop), strict=True):
            self._push(name, local)
        each = self.cost(loop.condition) + self.cost(loop.step)
        for name in loop.variables:
            self._locals[name].pop()
        total += self.cost(loop.result)
        count = self._known(loop.over)
        if loop.start.kind == "const":
            self._set(node, self._size(loop.start))
        else:
            self._sizes[node] = count
            if (entries := self._entry(loop.step)) is not None:
                self._entries[node] = entries
        self._locals[loop.accumulator].pop()
        return total + count * each

    def _variables(self, loop: Loop) -> list[_Local]:
        entries, path = self._entry(loop.over), self._path(loop.over)
        kind = _type(loop.over).kind if entries is None else entries.kind
        key, value = (entries.key, entries.value) if entries else (None, None)
        if len(loop.variables) == 2:
            ends = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
            return [_Local((*path, ends[0]), key, None), _Local((*path, ends[1]), value, None)]
        end, size = ("@items", value) if kind == "list" else ("@keys", key)
        return [_Local((*path, end), size, None)]

    def _as_local(self, node: Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entry(node))

    def _bind(self, node: Node, loop: Loop) -> Range:
        total = self.cost(loop.over) + self.cost(loop.start)
        self._push(loop.accumulator, self._as_local(loop.start))
        total += self.cost(loop.result)
        self._set(node, self._size(loop.result))
        if (entries := self._entry(loop.result)) is not None:
            self._entries[node] = entries
        self._locals[loop.accumulator].pop()
        return total

    # ------------------------------------------------------------ calls

    def _call(self, node: Node) -> Range:
        costs = [self.cost(arg) for arg in node.args]
        if node.name == "dyn":
            self._set(node, self._size(node.args[0]))
            return ONE + costs[0]
        if node.name in ("_&&_", "_||_"):
            return Range(costs[0].least, sum(costs, ZERO).most)
        total = ZERO if node.target is None else self.cost(node.target)
        if node.name == "_?_:_":
            return self._conditional(node, costs)
        spent, size = Range(END, 0), None
        for overload in node.overloads:
            cost, made = self._overload(node, overload.id)
            spent |= cost
            size = made if size is None else size if made is None else size | made
            if overload.id in ("index_list", "index_map"):
                entries = self._entry(node.args[0])
                size = entries.value if entries else None
                end = "@items" if overload.id == "index_list" else "@values"
                self._paths[node] = (*self._path(node.args[0]), end)
            size = self._size(node) if size is None else size
        self._set(node, size)
        return total + spent + sum(costs, ZERO)

    def _conditional(self, node: Node, costs: list[Range]) -> Range:
        _, yes, no = node.args
        if (entries := self._entry(yes)) is not None and (
            both := entries.joined(self._entry(no))
        ) is not None:
            self._entries[node] = both
        self._sizes[node] = self._known(yes) | self._known(no)
        return costs[0] + (costs[1] | costs[2])

    def _overload(self, node: Node, overload: str) -> tuple[Range, Range | None]:
        """The cost of a call by one overload, without its arguments; and the size of the result."""
        given = ([node.target] if node.target is not None else []) + node.args
        if (special := _ESTIMATES.get(node.name)) is not None and (
            found := special(self, given, overload, node)
        ) is not None:
            return found
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._added(node, overload)
        if overload.startswith(_COMPARISONS) and not overload.endswith(_FIXED):
            one, other = self._known(given[0]), self._known(given[1])
            most = min(one.most, other.most)
            return Range(1 if most else 0, most).by(BY_LETTER), None
        return ONE, None

    def _added(self, node: Node, overload: str) -> tuple[Range, Range]:
        one, other = node.args
        size = self._known(one) + self._known(other)
        entries = self._entry(one)
        if entries is not None and (both := entries.joined(self._entry(other))) is not None:
            self._entries[node] = both
        return (ONE if overload == "add_list" else size.by(BY_LETTER)), size

    # ------------------------------------------------------------ sizes

    def _path(self, node: Node) -> Path:
        if node.kind == "ident" and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(node, ())

    def _entry(self, node: Node) -> Entries | None:
        if (known := self._entries.get(node)) is not None:
            return known
        local = self._local(node.name) if node.kind == "ident" else None
        return None if local is None else local.entries

    def _set(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[node] = size

    def _known(self, node: Node) -> Range:
        found = self._size(node)
        return UNKNOWN if found is None else found

    def _size(self, node: Node) -> Range | None:
        if (known := self._sizes.get(node)) is not None:
            return known
        if (written := _written(node)) is not None:
            return written
        if (limit := self.limit(self._path(node))) is not None:
            self._sizes[node] = limit
            return limit
        if _is_scalar(_type(node)):
            return ONE
        local = self._local(node.name) if node.kind == "ident" else None
        return None if local is None else local.size

    def limit(self, path: Path) -> Range | None:
        """What the schema says of the size of a place."""
        if not path or path[0] == ACCUMULATOR:
            return None
        place: Type | None = self._root
        for name in path[1:]:
            place = _below(place, name)
            if place is None:
                return None
        return None if place is None or place.most is None else Range(0, place.most)

    def size(self, node: Node) -> Range:
        return self._known(node)

    def items(self, node: Node) -> tuple[Type, Range] | None:
        """Type and size of the items of a list; None if it is none."""
        if not (params := _type(node).params):
            return None
        path = self._path(node)
        found = self.limit((*path, "@items")) if path else None
        return params[0], UNKNOWN if found is None else found


def _below(place: Type | None, name: str) -> Type | None:
    if place is None:
        return None
    if name in ("@items", "@values", "@keys"):
        if place.kind not in ("list", "map") or (name == "@keys" and place.kind == "list"):
            return None
        return place.params[0] if name == "@keys" else place.params[-1]
    found = place.fields.get(name)
    return None if found is None else found[1]


def _type(node: Node) -> Type:
    return node.type or DYN


def _written(node: Node) -> Range | None:
    """The size of what is written in the expression itself."""
    if node.kind == "const":
        value = node.value
        return (
            None if isinstance(value, Type) else _fixed(len(value) if isinstance(value, str | bytes) else 1)
        )
    return (
        _fixed(len(node.args) // (2 if node.kind == "map" else 1)) if node.kind in ("list", "map") else None
    )


_SCALARS = ("bool", "double", "duration", "int", "timestamp", "uint")
_COMPARISONS = ("less_", "greater_", "equals", "not_equals")
_FIXED = tuple(f"_{name}" for name in ("bool", "int64", "uint64", "double", "timestamp", "duration"))


def _is_scalar(given: Type) -> bool:
    if given.kind == "opaque" and given.name == "optional_type":
        return _is_scalar(given.params[0])
    return given.kind in _SCALARS


Found = tuple[Range, Range | None] | None
_Estimate = Callable[[_Coster, list[Node], str, Node], Found]


def _scan(factor: float, keeps: bool = False, which: int = 0) -> _Estimate:
    """A function that reads a text or a list from end to end."""

    def found(coster: _Coster, given: list[Node], _overload: str, _node: Node) -> Found:
        size = coster.size(given[which])
        return size.by(factor), size if keeps else None

    return found


def _fixed_cost(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    return ONE, None


def _each_item(coster: _Coster, given: list[Node], _overload: str, node: Node) -> Found:
    if node.target is None:
        return None
    size, items = coster.size(given[0]), coster.items(given[0])
    if items is None:
        return size.by(BY_LETTER), None
    kind, length = items
    each = ONE + length.by(BY_LETTER) if kind.kind in ("string", "bytes") else ONE
    return size * each, None


def _replaced(coster: _Coster, given: list[Node], _overload: str, _node: Node) -> Found:
    size, old, new = (coster.size(each) for each in given[:3])
    most_count, most_kept = 0, 0
    if old.least == 0:
        most_count, most_kept = min(size.most + 1, END), size.most
    elif new.most <= old.least:
        most_kept = size.most
    else:
        most_count = math.ceil(size.most / old.least)
    least_count, least_kept = 0, 0
    if old.most == 0:
        least_count, least_kept = min(size.least + 1, END), size.least
    elif old.most <= new.least:
        least_kept = size.least
    else:
        least_count = math.ceil(size.least / old.most)
    made = Range(least_count, most_count) * new + Range(least_kept, most_kept)
    return size.by(2 * BY_LETTER), made


def _split(coster: _Coster, given: list[Node], _overload: str, _node: Node) -> Found:
    size = coster.size(given[0])
    most = size.most
    if len(given) > 2 and given[2].kind == "const" and type(given[2].value) is int:
        most = given[2].value % (END + 1)
    return size.by(2 * BY_LETTER), Range(0, most)


def _joined(coster: _Coster, given: list[Node], _overload: str, _node: Node) -> Found:
    count, items = coster.size(given[0]), coster.items(given[0])
    size = count * items[1] if items else ZERO
    if len(given) > 1:
        size += coster.size(given[1]) * Range(max(count.least - 1, 0), max(count.most - 1, 0))
    return size.by(BY_LETTER), size


def _matched(coster: _Coster, given: list[Node], _overload: str, node: Node) -> Found:
    if node.name == "matches" and node.target is None:
        return None
    size = coster.size(given[0])
    cost = (size + ONE).by(BY_LETTER) * coster.size(given[1]).by(BY_PATTERN)
    return cost, None if node.name == "matches" else Range(0, size.most)


def _part_of(coster: _Coster, given: list[Node], overload: str, _node: Node) -> Found:
    return coster.size(given[0]).by(BY_LETTER) * coster.size(given[1]).by(BY_LETTER), None


def _in_list(coster: _Coster, given: list[Node], overload: str, _node: Node) -> Found:
    return (coster.size(given[1]).by(1), None) if overload == "in_list" else None


def _address(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    """``containsIP`` and ``containsCIDR``."""
    size = Range(4, 16)
    cost = (size + size).by(BY_LETTER)
    if node.name == "containsCIDR":
        cost += size.by(BY_LETTER) + ONE
    return cost + (coster.size(given[1]).by(BY_LETTER) if overload.endswith("_string") else ZERO), None


def _ip(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    return (ONE, None) if overload == "cidr_ip" else (coster.size(given[0]).by(BY_LETTER), None)


def _converted(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    size = coster.size(given[0])
    if overload == "string_to_bytes":
        return size.by(BY_LETTER), Range(size.least, min(size.most * 4, END))
    if overload == "bytes_to_string":
        return size.by(BY_LETTER), Range(size.least // 4, size.most)
    return None


def _quoted(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    size = coster.size(given[0])
    return size.by(BY_LETTER), Range(size.least + 2, min(size.most * 2 + 2, END))


def _validated(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    return coster.size(given[1]).by(BY_LETTER).by(_FORMAT_PATTERN * BY_PATTERN), None


def _of_sets(factor: float) -> _Estimate:
    return lambda coster, given, _overload, _node: (
        (coster.size(given[0]) * coster.size(given[1])).by(factor) + ONE,
        None,
    )


def _list_made(size: Range, factor: float = 1) -> Found:
    return size.by(factor) + ONE + _fixed(LIST), size


def _number(node: Node, otherwise: int) -> int:
    if node.kind != "const" or type(node.value) is not int:
        return otherwise
    return node.value % (END + 1)


def _of_list(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    """What makes a list of another one."""
    size = coster.size(given[0])
    match node.name:
        case "slice":
            count = (_number(given[2], size.most) - _number(given[1], 0)) % (END + 1)
            return _list_made(_fixed(count))
        case "lists.range":
            return _list_made(_fixed(_number(given[0], END)))
        case "flatten":
            return _list_made(size, float(_number(given[1], END) if len(given) > 1 else 1))
        case "distinct" | "reverse":
            return _list_made(size) if node.name == "reverse" else _list_made(size * size, 2)
    if node.name == "@sortByAssociatedKeys":
        size = coster.size(given[1])
    letters = "string" in overload or "bytes" in overload
    return _list_made(size * size, 2 + BY_LETTER if letters else 2)


def _same_kind(coster: _Coster, given: list[Node], overload: str, node: Node) -> Found:
    one, other = _type(given[0]), _type(given[1])
    if one.kind != "opaque" or one.name != other.name or one.name == "optional_type":
        return None
    if one.name == "kubernetes.URL":
        return Range(1, coster.size(given[1]).most).by(BY_LETTER), None
    return (Range(1, 64).by(BY_LETTER) if one.name == "kubernetes.NamedFormat" else ONE), None


_CHEAP = """
masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast
format.named sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major
minor patch getScheme getHostname getHost getPort getEscapedPath getQuery
"""
_ESTIMATES: dict[str, _Estimate] = {
    **dict.fromkeys(_CHEAP.split(), _fixed_cost),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_item),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url"), _scan(BY_LETTER, keeps=True)),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scan(BY_LETTER)
    ),
    **dict.fromkeys(("startsWith", "endsWith"), _scan(BY_LETTER, which=1)),
    **dict.fromkeys(("find", "findAll", "matches"), _matched),
    **dict.fromkeys(("containsIP", "containsCIDR"), _address),
    **dict.fromkeys(("bytes", "string"), _converted),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _of_sets(1)),
    **dict.fromkeys(
        ("slice", "lists.range", "flatten", "distinct", "reverse", "sort", "@sortByAssociatedKeys"), _of_list
    ),
    "sets.equivalent": _of_sets(2),
    "ip.isCanonical": _scan(2 * BY_LETTER),
    "format": _scan(BY_LETTER),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "contains": _part_of,
    "@in": _in_list,
    "ip": _ip,
    "strings.quote": _quoted,
    "validate": _validated,
    "_==_": _same_kind,
}
