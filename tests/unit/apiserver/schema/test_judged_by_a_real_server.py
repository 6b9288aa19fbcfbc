"""What kube-apiserver v1.36.3 said about 290 objects, we say too.

``judged.jsonl`` was recorded from a real server: bodies good and bad, and what came of them. Cases
in which we knowingly differ (docs/reference) are not in it.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from kubewright.apiserver.http import answers
from kubewright.apiserver.registry import custom, strategy
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import Catalog, ServedKind
from kubewright.apiserver.schema.node import Object

HERE = Path(__file__).parent
CASES = [orjson.loads(line) for line in (HERE / "judged.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    served = builtin_catalog()
    for kind in custom.kinds(orjson.loads((HERE / "probe_crd.json").read_bytes())):
        served.put(kind)
    return served


def refusal(kind: ServedKind, body: Object, strict: bool) -> str | None:
    """The sentence of a 400, if the body deserves one."""
    if (error := kind.schema.decode_error(body)) is not None:
        return error
    unknown = kind.schema.unknown_fields(body) if strict else []
    return (
        "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)
        if unknown
        else None
    )


def parts(sentence: str | None) -> list[str]:
    """kube-apiserver lists unknown fields in the order of its structs, we in that of the document."""
    head, _, tail = (sentence or "").partition(": ")
    return [head, *sorted(tail.split(", "))]


def verdict(kind: ServedKind, case: dict[str, Any]) -> dict[str, Any]:
    """What we say about a body, in the form of the recording."""
    said = refusal(kind, case["body"], case["strict"])
    if said is not None:
        return {"refused": parts(said)}
    if counts := strategy.float_counts(kind, case["body"]):
        return {"causes": [[c.reason, c.field, c.message] for c in counts]}
    body, old = kind.schema.prune(kind.schema.whole(case["body"])), case.get("old")
    body.setdefault("metadata", {}).setdefault("namespace", "default" if kind.resource.namespaced else "")
    stored = kind.prepare(kind.schema.default(body), old)
    causes = [*kind.schema.validate(stored), *kind.check(stored, old)]
    if causes:
        return {"causes": sorted([c.reason, c.field, c.message] for c in causes)}
    return {"stored": {name: stored.get(name) for name in case["stored"]}} if "stored" in case else {}


def recorded(case: dict[str, Any]) -> dict[str, Any]:
    """What kube-apiserver said."""
    if "refused" in case:
        return {"refused": parts(case["refused"])}
    return {name: case[name] for name in ("causes", "stored") if name in case}


@pytest.mark.parametrize("resource", sorted({tuple(case["resource"]) for case in CASES}), ids=str)
def test_we_say_what_kube_apiserver_says(resource: tuple[str, str, str], catalog: Catalog) -> None:
    kind = catalog.find(*resource)
    assert kind is not None
    cases = {case["id"]: case for case in CASES if tuple(case["resource"]) == resource}
    assert {name: verdict(kind, case) for name, case in cases.items()} == {
        name: recorded(case) for name, case in cases.items()
    }


TABLES = [table for table in orjson.loads((HERE / "judged_tables.json").read_bytes()) if table["rows"]]


@pytest.mark.parametrize("recorded_table", TABLES, ids=lambda table: "/".join(table["resource"]))
def test_we_print_what_kube_apiserver_prints(recorded_table: dict[str, Any], catalog: Catalog) -> None:
    kind = catalog.find(*recorded_table["resource"])
    assert kind is not None
    objects = [row["object"] for row in recorded_table["rows"]]
    printed = answers.render(kind, objects, now=datetime.fromisoformat(recorded_table["now"]))
    assert [row["cells"] for row in printed["rows"]] == [row["cells"] for row in recorded_table["rows"]]
