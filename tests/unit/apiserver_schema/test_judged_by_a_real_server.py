"""What kube-apiserver v1.36.3 said about 290 objects, we say too.

``judged.jsonl`` was recorded from a real server: bodies good and bad, and what came of them. Cases
in which we knowingly differ (docs/reference) are not in it.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest

from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import Catalog, Object, ServedKind

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
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown) if unknown else None


def parts(sentence: str | None) -> list[str]:
    """kube-apiserver lists unknown fields in the order of its structs, we in that of the document."""
    head, _, tail = (sentence or "").partition(": ")
    return [head, *sorted(tail.split(", "))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_we_say_what_kube_apiserver_says(case: dict[str, Any], catalog: Catalog) -> None:
    kind = catalog.find(*case["resource"])
    assert kind is not None
    said = refusal(kind, case["body"], case["strict"])
    assert parts(said) == parts(case.get("refused"))
    if said is not None:
        return

    body, old = kind.schema.prune(case["body"]), case.get("old")
    body.setdefault("metadata", {}).setdefault("namespace", "default" if kind.resource.namespaced else "")
    stored = kind.prepare(kind.schema.default(body), old)

    causes = [*kind.schema.validate(stored), *kind.check(stored, old)]
    assert sorted([c.reason, c.field, c.message] for c in causes) == case.get("causes", [])
    if "stored" in case:
        assert {name: stored[name] for name in case["stored"]} == case["stored"]
