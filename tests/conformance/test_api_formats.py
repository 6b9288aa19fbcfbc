"""Which texts kube-apiserver takes for what a format or a pattern of a definition says."""

import pytest
from tests.conformance.own_kinds import OwnKind

from kubewright.testing.api import Api

FORMATS: dict[str, tuple[list[str], list[str]]] = {
    "byte": (["YQ==", "YQ=="], ["", "YQ", "YQ==\n", "a b", " YQ==", "-_8="]),
    "ipv4": (["010.0.0.1", "1.2.3.4", "::ffff:1.2.3.4", "1.2.3.04"], ["::1", "1.2.3", "1.2.3.256", ""]),
    "ipv6": (["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0", "1::2::3", "", "::ffff:01.2.3.4"]),
    "date-time": (
        [
            "2020-01-01T23:59:59Z",
            "2020-01-01t23:59:59z",
            "2020-01-01T23:59:59.123456789Z",
            "2020-01-01T23:59:59,5Z",
            "2020-01-01T23:59:59+99:99",
        ],
        [
            "23:59:60Z",
            "2020-01-01T23:59:60Z",
            "2020-01-01T23:59:59",
            "2020-01-01T24:00:00Z",
            "2020-02-30T00:00:00Z",
            "2020-01-01 23:59:59Z",
            "",
            "2020-01-01T23:59:59+0100",
        ],
    ),
    "date": (["2020-01-01"], ["2020-1-1", "2020-02-30", "", "20200101"]),
    "datetime": (["2020-01-01T23:59:59Z"], ["x"]),
    "k8s-short-name": (
        ["a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
        ["A", "a.b", "", "-a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
    ),
    "k8s-long-name": (
        [
            "a",
            "a.b",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
        [
            "A",
            "",
            "a..b",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
    ),
    "cidr": (
        ["10.0.0.0/8", "10.0.0.1/8", "010.0.0.0/8", "::/0", "::ffff:1.2.3.4/96", "10.0.0.0/08"],
        ["10.0.0.0", ""],
    ),
    "mac": (
        [
            "01:23:45:67:89:ab",
            "01-23-45-67-89-ab",
            "0123.4567.89ab",
            "01:23:45:67:89:ab:cd:ef",
            "0123456789ab",
        ],
        [""],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
        ["{123e4567-e89b-12d3-a456-426614174000}", "", "urn:uuid:123e4567-e89b-12d3-a456-426614174000"],
    ),
    "uuid3": (["123e4567-e89b-32d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "uuid4": (
        ["123e4567-e89b-42d3-a456-426614174000"],
        ["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-7456-426614174000"],
    ),
    "uuid5": (["123e4567-e89b-52d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
    "duration": (
        ["1s", "1 day", "PT1H", "1d", "2 weeks", "1h30m", "-1s", "x1s", "1.5h", "1.5 days", "1 µs", "0"],
        ["", "5", "1 fortnight"],
    ),
    "email": (["a@b", "a@b.c", "A <a@b.c>", '"a b"@c.d', "a@[1.2.3.4]", "ä@b.c"], ["", "a", "a@", "a b@c.d"]),
    "hostname": (
        ["a", "a-", "ä.de"],
        [
            "a.b",
            "a_b",
            "-a",
            "a..b",
            "",
            "A.B",
            "1.2.3.4",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b",
            "example.c",
            "a.b.",
            "a b",
        ],
    ),
    "uri": (
        ["http://a", "/a", "mailto:x", "//a", "x:y", "http://[::1]"],
        ["a", "", "http://a b", "#a", "http://a/%zz", "?a", "http://a:port"],
    ),
    "creditcard": (["4111111111111111", "4111-1111-1111-1111"], ["4111111111111112", "", "1234"]),
    "hexcolor": (["#fff", "fff", "#FFFFFF"], ["#ffff", "x", ""]),
    "rgbcolor": (["rgb(1,2,3)", "rgb(1, 2, 3)"], ["rgb(256,0,0)", "rgba(1,2,3,1)", "rgb(100%,0%,0%)", ""]),
    "ssn": (["123-45-6789"], ["123456789", "12-345-6789", ""]),
    "isbn": (["0321751043", "978-0321751041"], ["x", ""]),
    "isbn10": (["0321751043", "0-321-75104-3"], ["0321751044", "x", ""]),
    "isbn13": (["978-0321751041", "9780321751041"], ["978-0321751042", ""]),
    "bsonobjectid": (
        ["507f1f77bcf86cd799439011"],
        ["507f1f77bcf86cd79943901", "zzzf1f77bcf86cd799439011", ""],
    ),
    "password": (["", "x"], []),
    "unknown": (["x"], []),
    "binary": (["x"], []),
    "int-or-string": (["x"], []),
    "quantity": (["x"], []),
    "time": (["x"], []),
    "regex": (["("], []),
    "uri-reference": (["a b"], []),
    "json-pointer": (["x"], []),
}
"""By format: what it accepts, and what it refuses. What Kubernetes does not know accepts all."""

PATTERNS: dict[str, tuple[list[str], list[str]]] = {
    "^\\s$": ([" ", "\t", "\x0c", "\n"], ["\xa0", "\x0b", "\u2003"]),
    "^\\S$": (["a", "\xa0", "é", "\x0b"], []),
    "^\\d$": (["1"], ["٣"]),
    "^\\w$": (["a", "_"], ["é", "ſ"]),
    "\\bé": (["aé"], ["é", "é "]),
    "é\\b": (["éa"], ["é"]),
    "\\ba\\b": (["éa", "a", " a "], ["ba"]),
    "^[\\s]$": ([" "], ["\xa0"]),
    "^[^\\s]$": (["\xa0", "a"], []),
    "^\\D$": (["٣"], []),
    "^.$": (["😀", "é"], ["\n"]),
    "^a$": (["a"], ["a\n"]),
    "(?i)^abc$": (["ABC"], []),
    "^\\pL+$": (["é"], ["é1"]),
    "^\\p{Greek}$": (["α"], []),
    "^[[:alpha:]]$": (["a"], ["é"]),
    "^\\x{41}$": (["A"], []),
    "\\Aa\\z": (["a"], ["ba"]),
    "(?s)^.$": (["\n"], []),
    "(?m)^b$": (["a\nb"], []),
    "^a{2,3}$": (["aa"], ["aaaa"]),
    "^\\Qa.b\\E$": (["a.b"], ["axb"]),
    "^(?P<n>a)$": (["a"], []),
    "^\\/$": (["/"], []),
    "^[\\w-]+$": (["a-b"], []),
    "^[a\\d-z]$": (["-"], []),
    "^\\\\$": (["\\"], []),
    "^\\.$": (["."], []),
    "^\\-$": (["-"], []),
    "^\\_$": (["_"], []),
    "^(?:a|b)$": (["a"], []),
    "^\\Bab": ([], ["ab"]),
    "[^\\W]": (["a"], ["é"]),
    "^\\a$": (["\x07"], []),
    "^\\101$": (["A"], []),
    "^(?i:a)b$": (["Ab"], []),
    "(?U)a+": (["a"], []),
    "^[\\p{L}\\s]+$": (["é "], ["é\xa0"]),
    "^[\\d\\s]*$": (["1 2"], ["1\xa02"]),
}
"""By pattern, in Go's syntax: what matches, and what does not."""

NO_PATTERNS = [
    "^\\C$",
    "(?=a)",
    "(?<!a)",
    "(a)\\1",
    "a**",
    "[z-a]",
    "(",
    "a{1001}",
    "\\8",
    "[[:foo:]]",
    "\\pQQ",
    "(?x)a",
    "[a",
    "a\\",
]


@pytest.fixture
async def things(api: Api) -> OwnKind:
    """A kind with a field of each format and each pattern, which the tests of one server share."""
    found = OwnKind(api, group="formats.example.io")
    if (await api.get(found.path)).code == 404:
        formats = {f"f{number}": {"type": "string", "format": name} for number, name in enumerate(FORMATS)}
        patterns = {f"p{number}": {"type": "string", "pattern": text} for number, text in enumerate(PATTERNS)}
        await found.define({**formats, **patterns})
    return found


async def verdict(
    things: OwnKind, field: str, texts: tuple[list[str], list[str]]
) -> tuple[list[str], list[str]]:
    """Which of the texts the server accepts, and which it refuses."""
    accepted, refused = [], []
    for text in (*texts[0], *texts[1]):
        answer = await things.post("x", {field: text}, dryRun="All")
        assert answer.code in (201, 422), answer.message
        (accepted if answer.code == 201 else refused).append(text)
    return accepted, refused


async def test_a_format_accepts_what_go_takes_for_one(things: OwnKind) -> None:
    said = {
        name: await verdict(things, f"f{number}", texts)
        for number, (name, texts) in enumerate(FORMATS.items())
    }
    assert said == FORMATS


async def test_a_pattern_matches_what_it_matches_in_go(things: OwnKind) -> None:
    said = {
        text: await verdict(things, f"p{number}", texts)
        for number, (text, texts) in enumerate(PATTERNS.items())
    }
    assert said == PATTERNS


async def test_a_refusal_shows_the_pattern_as_it_was_written(things: OwnKind) -> None:
    number = list(PATTERNS).index(r"^\w$")
    answer = await things.post("x", {f"p{number}": "é"})
    assert answer.causes[0][2].endswith(r"in body should match '^\w$'")


@pytest.mark.parametrize("pattern", NO_PATTERNS)
async def test_what_is_no_pattern_in_go_is_refused(things: OwnKind, pattern: str) -> None:
    version = things.version({"p": {"type": "string", "pattern": pattern}}, {}, {})
    answer = await things.api.patch(things.crd, {"spec": {"versions": [version]}}, dryRun="All")
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes[0][1].endswith(".pattern")
