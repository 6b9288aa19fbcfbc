"""Random objects that a CRD's schema takes, for tests of conversions: of plain words, of empty ones, of odd ones."""

from random import Random
from typing import Any

WORDS = ("a", "<b>&", "x y", "ü\u2028", 'q"\\', "z\n")
TIMES = ("2024-01-01T00:00:00Z", "2026-11-27T22:00:01Z")
DURATIONS = ("0s", "10s", "1h30m0s", "5m0s", "100000h0m0s")
NAMED = {
    "token": "abcdef.0123456789abcdef",
    "partitionType": "Linux",
    "cidrBlocks": "10.0.0.0/8",
    "unhealthyRange": "[1-3]",
    "unhealthyInRange": "[1-3]",
    "address": "10.0.0.1",
    "type": "InternalIP",
}
UNIQUE = {
    "files": ("path",),
    "extraVolumes": ("hostPath",),
    "extraArgs": ("name",),
    "kubeletExtraArgs": ("name",),
}


class Objects:
    """Objects of the kinds of some CRDs. A part that no schema describes (a topology) is left out."""

    def __init__(self, crds: Any, random: Random) -> None:
        self._crds = {crd["spec"]["names"]["kind"]: crd["spec"] for crd in crds}
        self._random = random

    def one(self, kind: str, version: str) -> dict[str, Any]:
        """An object; how full it is, is random too."""
        spec = self._crds[kind]
        schema = next(each["schema"] for each in spec["versions"] if each["name"] == version)
        metadata: dict[str, Any] = {"name": "n", "namespace": "ns"}
        if self._random.random() < 0.5:
            metadata["annotations"] = {"x": "y"}
        content = self._object(schema["openAPIV3Schema"], "", self._random.choice((0.15, 0.5, 0.9)))
        content = {key: content[key] for key in content if key not in ("apiVersion", "kind", "metadata")}
        return {"apiVersion": f"{spec['group']}/{version}", "kind": kind, "metadata": metadata, **content}

    def _value(self, schema: Any, name: str, fullness: float) -> Any:
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice(("1", "500m") if "pattern" in schema else (0, 1, 3, "25%"))
        make = {"string": self._text, "integer": self._number, "array": self._list, "object": self._object}
        if schema["type"] == "boolean":
            return self._random.random() < 0.5
        return make[schema["type"]](schema, name, fullness)

    def _text(self, schema: Any, name: str, _fullness: float) -> str:
        if schema.get("format") == "date-time":
            return self._random.choice(TIMES)
        if schema.get("format") == "byte":
            return "aGVsbG8="
        if name in ("timeout", "ttl", "timeoutForControlPlane") or name.endswith("Timeout"):
            return self._random.choice(DURATIONS)
        if name in NAMED and (name != "type" or "pattern" not in schema):
            return NAMED[name]
        if not schema.get("minLength") and self._random.random() < 0.15:
            return ""
        if "pattern" in schema:
            return self._random.choice(("a", "b1", "c"))
        return self._random.choice(WORDS)[: schema.get("maxLength")]

    def _number(self, schema: Any, _name: str, _fullness: float) -> int:
        least, most = schema.get("minimum", 0), schema.get("maximum", 100_000)
        return self._random.choice((least, min(most, least + 1), min(most, least + 7)))

    def _list(self, schema: Any, name: str, fullness: float) -> list[Any]:
        items = [self._value(schema["items"], name, fullness) for _ in range(self._random.randint(1, 3))]
        keys = UNIQUE.get(name) or schema.get("x-kubernetes-list-map-keys")
        if not keys:
            return items
        apart = {tuple(str(item.get(key)) for key in keys): item for item in items}
        return [apart[key] for key in sorted(apart)]

    def _object(self, schema: Any, _name: str, fullness: float) -> dict[str, Any]:
        fields = {key: inner for key, inner in schema.get("properties", {}).items() if _described(inner)}
        required = schema.get("required", ())
        chosen = [key for key in fields if key in required or self._random.random() < fullness]
        if schema.get("minProperties") and not chosen:
            chosen = [self._random.choice(sorted(fields))]
        if isinstance(values := schema.get("additionalProperties"), dict):
            return {key: self._value(values, key, fullness) for key in self._random.sample(["k1", "b"], 2)}
        return {key: self._value(fields[key], key, fullness) for key in chosen}


def _described(schema: Any) -> bool:
    return not schema.get("x-kubernetes-preserve-unknown-fields")
