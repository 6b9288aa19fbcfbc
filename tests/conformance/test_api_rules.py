"""Rules in CEL (``x-kubernetes-validations``): which definitions are taken, and what rules say of objects."""

from typing import Any

import pytest
from tests.conformance.own_kinds import CRDS, OwnKind
from tests.conformance.pairs import Pair

from kubewright.testing.api import Api, Object
from kubewright.wire.http import JSON_PATCH

RULES = "x-kubernetes-validations"
TEXT: Object = {"type": "string", "maxLength": 40}
NUMBER: Object = {"type": "integer"}
REAL: Object = {"type": "number"}
BOOL: Object = {"type": "boolean"}
TEXTS: Object = {"type": "array", "maxItems": 10, "items": TEXT}
A_SET: Object = {**TEXTS, "x-kubernetes-list-type": "set"}
NUMBERS: Object = {"type": "array", "maxItems": 10, "items": NUMBER}
MAP: Object = {"type": "object", "maxProperties": 10, "additionalProperties": TEXT}
EITHER: Object = {"x-kubernetes-int-or-string": True, "maxLength": 20}
PAIR: Object = {
    "type": "object",
    "properties": {
        "a": NUMBER,
        "b": NUMBER,
        "namespace": TEXT,
        "x-y": TEXT,
        "no": {**TEXT, "nullable": True},
    },
}
NAMED: Object = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "value": TEXT}}
ARGS: Object = {"type": "array", "maxItems": 100, "items": NAMED}
KEYED: Object = {**ARGS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
WHEN, FOR, DAY, DATA = ({**TEXT, "format": each} for each in ("date-time", "duration", "date", "byte"))
for each in (WHEN, FOR, DAY):
    del each["maxLength"]

Case = tuple[Object, str | Object, Any, Any]
CASES: list[Case] = [
    # of Cluster API v1.14
    (ARGS, {"rule": "self.all(x, self.exists_one(y, x.name == y.name))", "message": "names must be unique"},
     [{"name": "a"}, {"name": "b"}], [{"name": "a"}, {"name": "a"}]),
    (PAIR, "[has(self.a),has(self.b)].filter(x,x==true).size() == 1", {"a": 1}, {"a": 1, "b": 2}),
    (TEXT, "!(self in ['Ready','Available'])", "Other", "Ready"),
    (TEXT, "self.matches('^(Linux|LVM|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')", "LVM", "LVM2"),
    # fields
    (PAIR, "self.a <= self.b", {"a": 1, "b": 1}, {"a": 2, "b": 1}),
    (PAIR, "self.a <= self.b", {"a": 1, "b": 1}, {"a": 2}),
    (PAIR, "self.__namespace__ == 'x' && self.x__dash__y == 'y'", {"namespace": "x", "x-y": "y"}, {"namespace": "x"}),
    (PAIR, "has(self.no)", {"no": "x"}, {"a": 1}),
    (PAIR, "!has(self.no)", {"no": None}, {"no": "x"}),
    (PAIR, "self.?no.orValue('x') == 'x'", {}, {"no": "y"}),
    (PAIR, "self.?a.hasValue() ? self.a > 1 : true", {}, {"a": 1}),
    (PAIR, {"rule": "self.a > 1", "fieldPath": ".a", "reason": "FieldValueForbidden"}, {"a": 2}, {"a": 1}),
    (PAIR, {"rule": "self.a > 1", "fieldPath": ".a", "reason": "FieldValueRequired", "message": " no "}, {"a": 2}, {"a": 1}),
    (NUMBER, {"rule": "self > 1", "reason": "FieldValueDuplicate"}, 2, 1),
    (TEXT, {"rule": "self != 'x'", "reason": "FieldValueInvalid"}, "y", "x"),
    (NUMBER, {"rule": "self > 1", "messageExpression": "' it is ' + (self > 0 ? 'one ' : 'less')"}, 2, 1),
    (NUMBER, {"rule": "self > 1", "message": "m", "messageExpression": "'a\\nb'"}, 2, 1),
    (NUMBER, {"rule": "self > 1", "messageExpression": "string(1 / (self - 1))"}, 2, 1),
    # lists and maps
    (A_SET, "self == ['a', 'b']", ["b", "a"], ["a"]),
    (TEXTS, "self == ['a', 'b']", ["a", "b"], ["b", "a"]),
    (MAP, "self.all(k, k.startsWith('a') && self[k] != '')", {"a": "1"}, {"a": ""}),
    (MAP, "self.exists(k, v, v == k)", {"a": "a"}, {"a": "b"}),
    (MAP, "'a' in self && self.a == '1'", {"a": "1"}, {"b": "1"}),
    (NUMBERS, "self.map(x, x * 2).sum() == 6", [1, 2], [1, 1]),
    (NUMBERS, "self.isSorted() && self.max() < 9 && self.min() > 0", [1, 2], [2, 1]),
    (NUMBERS, "self.max() < 9", [1], []),
    (NUMBERS, "self.transformList(i, v, i * v) == [0, 2]", [5, 2], [5, 3]),
    (NUMBERS, "self.sort() == self && self.distinct().size() == self.size() && self.slice(0, 1)[0] == 1", [1, 2], [1, 1]),
    (NUMBERS, "self[1] == 2", [1, 2], [1]),
    (NUMBERS, "self.indexOf(2) == 1 && self.reverse()[0] == 3", [1, 2, 3], [1, 2]),
    (ARGS, "self.sortBy(x, x.name)[0].name == 'a'", [{"name": "b"}, {"name": "a"}], [{"name": "b"}]),
    (TEXTS, "sets.contains(self, ['a']) && !sets.intersects(self, ['z']) && sets.equivalent(self, self)", ["a"], ["a", "z"]),
    (KEYED, "self.all(x, x.name.size() < 3)", [{"name": "ab"}], [{"name": "abc"}]),
    # int-or-string
    (EITHER, "type(self) == int ? self < 5 : self.endsWith('%')", 4, 5),
    (EITHER, "type(self) == int ? self < 5 : self.endsWith('%')", "5%", "5"),
    (EITHER, "self > 1", 2, "a"),
    # texts
    (TEXT, "self.lowerAscii() == self && self.trim() == self && self.size() < 5", "a b", "A"),
    (TEXT, "self.split(',')[1].trim() == 'b' && self.replace(',', ';') == 'a; b'", "a, b", "a,b,"),
    (TEXTS, "self.join('+') == 'a+b' && self.join().size() == 2", ["a", "b"], ["a"]),
    (TEXT, "self.substring(1, 3) == 'bc' && self.indexOf('c') == 2 && self.charAt(0) == 'a'", "abc", "abd"),
    (TEXT, "self.substring(1, 3) == 'bc'", "abc", "a"),
    (TEXT, "'%s-%d'.format([self, dyn(3)]) == 'x-3'", "x", "y"),
    (TEXT, "self.find('[0-9]+') == '12' && self.findAll('[a-z]').size() == 2", "a12b", "a1b"),
    (TEXT, "self.contains('a') && self > 'b'", "ca", "a"),
    (TEXT, "strings.quote(self) == '\"a\"'", "a", "b"),
    # libraries
    (TEXT, "isURL(self) && url(self).getScheme() == 'https' && url(self).getPort() == '80' && url(self).getQuery()['a'][0] == '1'",
     "https://x.io:80/p?a=1", "http://x.io"),
    (TEXT, "isURL(self) && url(self).getHostname() == '::1' && url(self).getEscapedPath() == '/a%20b'", "https://[::1]:80/a%20b", "b"),
    (TEXT, "isQuantity(self) && quantity(self).isGreaterThan(quantity('1Mi'))", "2Mi", "1M"),
    (TEXT, "quantity(self).add(quantity('1')).compareTo(quantity('2')) == 0 && quantity(self).asInteger() == 1", "1", "1.5"),
    (TEXT, "quantity(self).isInteger() && sign(quantity(self)) == 1 && quantity(self) == quantity('1k')", "1000", "x"),
    (TEXT, "isIP(self) && ip(self).family() == 6 && ip.isCanonical(self) && !ip(self).isLoopback()", "fe80::1", "::1"),
    (TEXT, "ip(self).isGlobalUnicast() && !ip(self).isUnspecified() && !ip(self).isLinkLocalUnicast()", "10.0.0.1", "169.254.0.1"),
    (TEXT, "isCIDR(self) && cidr(self).containsIP('10.1.2.3') && cidr(self).prefixLength() == 8", "10.0.0.0/8", "11.0.0.0/8"),
    (TEXT, "cidr(self).containsCIDR('10.1.0.0/16') && cidr(self).masked() == cidr('10.0.0.0/8') && string(cidr(self).ip()) == '10.0.0.1'",
     "10.0.0.1/8", "10.0.0.1/24"),
    (TEXT, "isSemver(self) && semver(self).isLessThan(semver('1.10.0')) && semver(self).major() == 1", "1.9.3", "1.10.0"),
    (TEXT, "isSemver(self, true) && semver(self, true).compareTo(semver('1.2.0')) == 0", "v1.2", "1.3"),
    (TEXT, "isSemver(self)", "1.0.0-rc.1+b", "1.0"),
    (TEXT, "!format.dns1123Label().validate(self).hasValue()", "a-b", "a.b"),
    (TEXT, "!format.named('uuid').value().validate(self).hasValue()", "123e4567-e89b-12d3-a456-426614174000", "x"),
    # formats and times
    (WHEN, "self < timestamp('2020-01-02T00:00:00Z') && self.getFullYear() == 2020", "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"),
    (WHEN, "self == timestamp('2020-01-01T00:00:00Z')", "2020-01-01T01:00:00+01:00", "2020-01-01T00:00:01Z"),
    (FOR, "self > duration('1m') && self.getSeconds() == 90", "1m30s", "10s"),
    (DAY, "self.getDayOfWeek() == 3", "2020-01-01", "2020-01-02"),
    (DATA, "self == b'a'", "YQ==", "Yg=="),
    (REAL, "self * 2.0 == 3.0 && string(self) == '1.5'", 1.5, 2),
    (REAL, "self == 2.0 && int(self) == 2 && self < 3", 2, 3),
    # errors at run time
    (NUMBER, "10 / self > 1", 5, 0),
    (NUMBER, "9223372036854775807 + self > 1", 0, 1),
    (NUMBER, "true || 1 / self > 1", 0, "x"),
    (NUMBER, "1 / self > 1 || self == 0", 0, 2),
    (BOOL, "self ? true : false", True, False),
]  # fmt: skip
"""Schema, rule, a value that it lets pass, and one that it refuses."""


def ruled(schema: Object, rule: str | Object) -> Object:
    return {**schema, RULES: [{"rule": rule} if isinstance(rule, str) else rule]}


def fields() -> Object:
    return {f"f{number}": ruled(schema, rule) for number, (schema, rule, _, _) in enumerate(CASES)}


BIG: Object = {"type": "string"}
BIGS: Object = {"type": "array", "items": BIG}
REFUSED: list[tuple[Object, str | Object]] = [
    (TEXT, "self.size("),
    (TEXT, "self > 1"),
    (TEXT, "self"),
    (TEXT, "self.nothing == 1"),
    (TEXT, "other == 1"),
    (TEXT, "self.matches('(')"),
    (TEXT, "self in [1, 'a']"),
    (TEXT, "duration('x') == duration('1s')"),
    (TEXT, "base64.encode(b'a') == self"),
    (TEXT, "cel.bind(x, self, x == 'a')"),
    (TEXT, "self == null"),
    (TEXT, {"rule": ""}),
    (TEXT, {"rule": "self == 'a'", "message": " "}),
    (TEXT, {"rule": "self == 'a'", "message": "a\nb"}),
    (TEXT, {"rule": "self == 'a' ||\nself == 'b'"}),
    (TEXT, {"rule": "self == 'a'", "reason": "Other"}),
    (TEXT, {"rule": "self == 'a'", "messageExpression": "1"}),
    (TEXT, {"rule": "self == 'a'", "messageExpression": "self +"}),
    (TEXT, {"rule": "self == 'a'", "optionalOldSelf": True}),
    (PAIR, {"rule": "self.a == 1", "fieldPath": ".c"}),
    (PAIR, {"rule": "self.a == 1", "fieldPath": "a"}),
    (TEXT, "self.split(',').map(x, x.trim()).join('+') == 'a+b'"),
    (BIGS, "self.all(x, self.exists_one(y, x == y))"),
    (BIG, "self.contains(self)"),
    ({"type": "array", "items": ruled(BIG, "self.matches('^a+$')")}, "self.size() > 0"),
    ({**TEXTS, "items": ruled(TEXT, "self == oldSelf")}, "self.size() > 0"),
    ({**BIGS, "items": {"type": "array", "items": ruled(BIG, "self.matches('^a[b-d]+$')")}}, "true"),
    (BIGS, "self.map(x, self.map(y, x + y)).size() > 1"),
]
TAKEN: list[tuple[Object, str | Object]] = [
    (PAIR, "self.namespace == 'a'"),
    (BIGS, "self.all(x, x != '')"),
    (BIG, "self.matches('^a+$')"),
    (BIG, "self.startsWith('a')"),
    (TEXT, {"rule": "self == oldSelf", "message": "it does not change"}),
    (TEXT, {"rule": "oldSelf.hasValue() || self == 'a'", "optionalOldSelf": True}),
    (KEYED, {"rule": "oldSelf.all(x, self.exists(y, x.name == y.name))"}),
    ({**KEYED, "items": ruled(NAMED, "self == oldSelf")}, "true"),
    (MAP, {"rule": "self.size() > 1", "fieldPath": "['a']"}),
    (TEXTS, "lists.range(3).size() == 3"),
    (TEXT, "true && " * 200 + "true"),
]


def definition(schema: Object) -> Object:
    """A definition with one field, which only a dry run gets to see."""
    spec = {"type": "object", "properties": {"f": schema}}
    version = {"name": "v1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}  # fmt: skip
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    body = {"group": "dry.example.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "things.dry.example.io"}, "spec": body}


async def outcome(api: Api, schema: Object) -> Any:
    answer = await api.call("POST", CRDS, definition(schema), query={"dryRun": "All"})
    return (
        answer.code,
        sorted({(reason, field) for reason, field, _ in answer.causes}),
        answer.headers.get("warning"),
    )


async def test_rules_that_cannot_be_right_or_cost_too_much_are_refused_where_they_stand(api: Api) -> None:
    wrong = {}
    for schema, rule in REFUSED:
        code, causes, _ = await outcome(api, ruled(schema, rule))
        if code != 422 or not any(RULES in field for _, field in causes):
            wrong[str(rule)] = code, causes
    assert wrong == {}


async def test_rules_that_are_bounded_are_taken_without_a_warning(api: Api) -> None:
    wrong = {str(rule): await outcome(api, ruled(schema, rule)) for schema, rule in TAKEN}
    assert {rule: found for rule, found in wrong.items() if found != (201, [], None)} == {}


@pytest.fixture
async def things(api: Api) -> OwnKind:
    found = OwnKind(api)
    await found.define(fields())
    return found


async def test_each_rule_lets_a_good_value_pass_and_refuses_a_bad_one(things: OwnKind) -> None:
    wrong = []
    for number, (_, rule, good, bad) in enumerate(CASES):
        passed = await things.post("x", {f"f{number}": good}, dryRun="All")
        refused = await things.post("x", {f"f{number}": bad}, dryRun="All")
        if (passed.code, refused.code) != (201, 422):
            wrong.append((rule, passed.code, passed.message, refused.code, refused.message))
    assert wrong == []


CHANGING: Object = {
    "once": {**TEXT, RULES: [{"rule": "self == oldSelf", "message": "it does not change"}]},
    "grows": {**NUMBER, RULES: [
        {"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": True}]},
    "born": {**NUMBER, RULES: [{"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": True}]},
    "keyed": {**KEYED, "items": {**NAMED, RULES: [{"rule": "self.value == oldSelf.value"}]}},
    "map": {**MAP, "additionalProperties": {**TEXT, RULES: [{"rule": "self == oldSelf"}]}},
    "small": TEXT, "other": TEXT, "list": TEXTS,
}  # fmt: skip
CHANGES: dict[str, tuple[list[tuple[str, str, Any]], str]] = {
    "a field that does not change": ([("replace", "/spec/once", "b")], "spec.once"),
    "another field": ([("replace", "/spec/other", "b")], ""),
    "a field that grows": ([("replace", "/spec/grows", 6)], ""),
    "a field that shrinks": ([("replace", "/spec/grows", 4)], "spec.grows"),
    "a field born with a bad value": ([("add", "/spec/born", 1)], "spec.born"),
    "a field born with a good value": ([("add", "/spec/born", 0)], ""),
    "an item by its key": ([("replace", "/spec/keyed/0/value", "2")], "spec.keyed[0]"),
    "an item that moves": ([("add", "/spec/keyed/0", {"name": "n", "value": "3"})], ""),
    "a value in a map": ([("replace", "/spec/map/a", "2")], "spec.map[a]"),
    "another value in a map": ([("add", "/spec/map/b", "2")], ""),
}


def patch(ops: list[tuple[str, str, Any]]) -> list[Object]:
    return [{"op": op, "path": path, "value": value} for op, path, value in ops]


async def told(things: OwnKind, ops: list[tuple[str, str, Any]]) -> str:
    """The field that a change of ``x`` is refused for, its code, or the field of a warning."""
    answer = await things.api.patch(f"{things.path}/x", patch(ops), content_type=JSON_PATCH, dryRun="All")
    if answer.code == 422:
        return ", ".join(field for _, field, _ in answer.causes)
    warning = str(answer.headers.get("warning") or "")
    return warning.partition('"')[2].partition(":")[0] if answer.code == 200 else str(answer.code)


async def test_rules_about_changes_compare_with_the_old_object(api: Api) -> None:
    things = OwnKind(api)
    await things.define(CHANGING)
    keyed = [{"name": "a", "value": "1"}]
    made = {"once": "a", "other": "a", "grows": 5, "keyed": keyed, "map": {"a": "1"}}
    (await things.post("x", made)).ok()
    found = {name: await told(things, ops) for name, (ops, _) in CHANGES.items()}
    assert found == {name: field for name, (_, field) in CHANGES.items()}


EXCUSED: dict[str, tuple[list[tuple[str, str, Any]], str]] = {
    "another field": ([("replace", "/spec/other", "b")], "spec.small"),
    "the bad field to another bad value": ([("replace", "/spec/small", "looong")], "spec.small"),
    "the bad field to a good value": ([("replace", "/spec/small", "ok")], ""),
}


async def test_a_rule_that_came_later_is_told_as_a_warning_where_nothing_changed(api: Api) -> None:
    things = OwnKind(api)
    await things.define(CHANGING)
    (await things.post("x", {"small": "loong", "other": "a"})).ok()
    strict = {**CHANGING, "small": {**TEXT, RULES: [{"rule": "self.size() < 4"}]}}
    await things.redefine(strict)
    found = {name: await told(things, ops) for name, (ops, _) in EXCUSED.items()}
    assert found == {name: field for name, (_, field) in EXCUSED.items()}
    refused = await things.api.patch(f"{things.path}/x", {"spec": {"small": "looong"}})
    assert refused.code == 422


async def test_rules_at_the_root_see_the_name_and_the_status_of_an_object(api: Api) -> None:
    things = OwnKind(api)
    rules = [
        {"rule": "self.metadata.name.startsWith('a')", "message": "its name begins with an a"},
        {"rule": "!has(self.status) || !has(self.status.replicas) || self.status.replicas < 3"},
    ]
    await things.define({"n": NUMBER}, root={RULES: rules})
    (await things.post("ab", {"n": 1})).ok()
    refused = await things.post("b", {"n": 1})
    assert (refused.code, refused.causes) == (
        422, [("FieldValueInvalid", "<nil>", "Invalid value: its name begins with an a")],
    )  # fmt: skip
    status = await things.api.patch(f"{things.path}/ab/status", {"status": {"replicas": 3}})
    assert [field for _, field, _ in status.causes] == ["<nil>"]
    untyped = await things.post("b", {"n": "x"})
    assert "some validation rules were not checked because the object was invalid" in untyped.message


async def test_rules_that_run_for_long_end_by_their_budget(api: Api) -> None:
    things = OwnKind(api)
    many = {**NUMBERS, "maxItems": 1_000}
    await things.define({"f": {**many, RULES: [{"rule": "self.all(x, self.all(y, x + y > 0))"}]}})
    (await things.post("x", {"f": [1] * 100})).ok()
    refused = await things.post("y", {"f": [1] * 1_000})
    assert (refused.code, [field for _, field, _ in refused.causes]) == (422, ["spec.f"])
    assert (
        "no further validation rules will be run due to call cost exceeds limit for rule" in refused.message
    )


@pytest.mark.kube
@pytest.mark.looptime(False)
async def test_both_servers_say_the_same_of_each_rule(pair: Pair) -> None:
    unlike = []
    kinds = []
    for api in pair.both:
        kinds.append(OwnKind(api, "rules.example.io"))
        await kinds[-1].define(fields())
    for number, (_, rule, good, bad) in enumerate(CASES):
        for value in (good, bad):
            ours, theirs = [await kind.post("x", {f"f{number}": value}, dryRun="All") for kind in kinds]
            if (ours.code, ours.causes) != (theirs.code, theirs.causes):
                unlike.append((rule, value, ours.message, theirs.message))
    for schema, rule in REFUSED + TAKEN:
        ours, theirs = [await outcome(api, ruled(schema, rule)) for api in pair.both]
        if ours != theirs:
            unlike.append((rule, schema, ours, theirs))
    assert unlike == [], "\n".join(map(str, unlike))
