"""The same random writes in several versions to both servers: objects in each version and managers must be the same.

As in ``test_api_apply_differential``; the kind is converted by a webhook (``converters``), which both servers ask.
After each step both versions of the object are compared. A story is named by its seed:
``STORIES=1 SEED=17 make test-kube ARGS='-k versions_differential'``.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.converters import V1, V2, Gates, Webhook, version, webhook
from tests.conformance.pairs import FIRST, STORIES, Pair, unlike
from tests.conformance.test_api_apply_differential import managers, same_for_all

from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

STEPS = 40
LISTED: Object = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}},
    },
}
VERSIONS = [
    version("v1", {**V1, "doors": LISTED}),
    version("v2", {**V2, "doors": LISTED}, storage=True),
]


@pytest.fixture(scope="module")
def hook() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


class Storyteller:
    """Draws steps, each as the method, the version, the rest of the path, the body, its type, and the query."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def step(self) -> tuple[str, str, str, Any, str, dict[str, str]]:
        version, name = self.random.choice(("v1", "v2")), self.random.choice("ab")
        writer = {"fieldManager": self.random.choice(("one", "two", "kubectl"))}
        forced = writer | self.random.choice(({}, {"force": "true"}))
        metadata = {"name": name, **self.fields(labels={"x": self.random.choice("12")})}
        body = {"kind": "Gate", "apiVersion": version, "metadata": metadata, "spec": self.spec(version)}
        match self.random.choices("acmjrsd", (10, 2, 5, 2, 1, 2, 1))[0]:
            case "a":
                return "PATCH", version, name, body, APPLY_PATCH, forced
            case "c":
                return "POST", version, "", body, "application/json", writer
            case "m":
                return "PATCH", version, name, {"spec": body["spec"]}, MERGE_PATCH, writer
            case "j":
                where = "/spec/replicas" if self.random.random() < 0.5 else "/spec/doors"
                value = 3 if where.endswith("replicas") else [{"name": "e"}]
                operation = {"op": "add", "path": where, "value": value}
                return "PATCH", version, name, [operation], JSON_PATCH, writer
            case "r":
                reset: Object = {"metadata": {"managedFields": [{}]}}
                return "PATCH", version, name, reset, MERGE_PATCH, writer
            case "s":
                status = {**body, "status": {"said": self.random.choice("yz")}}
                return "PATCH", version, f"{name}/status", status, APPLY_PATCH, forced
        return "DELETE", version, name, None, "application/json", {}

    def spec(self, version: str) -> Object:
        doors = [{"name": each} for each in self.random.sample("fgh", self.random.randint(0, 3))]
        both = self.fields(replicas=self.random.choice((1, 2)), doors=doors)
        if version == "v1":
            return {**both, **self.fields(size=self.random.choice(("3m", "4m", "4k")))}
        length = {"length": self.random.choice((3, 4)), "unit": self.random.choice("mk")}
        measured = length if self.random.random() < 0.5 else {}
        return {**both, **measured, **self.fields(color=self.random.choice("rg"))}

    def fields(self, **found: Any) -> Object:
        return {name: value for name, value in found.items() if self.random.random() < 0.5}


async def told(gates: Gates, step: tuple[str, str, str, Any, str, dict[str, str]]) -> Answer:
    method, version, rest, body, content_type, query = step
    if isinstance(body, dict) and "apiVersion" in body:
        body = {**body, "apiVersion": f"{gates.group}/{version}"}
    path = gates.path(version) + (f"/{rest}" if rest else "")
    return await gates.api.call(method, path, body, query=query, content_type=content_type)


async def prepared(api: Api, namespace: str, hook: Webhook) -> Gates:
    api.namespace = namespace
    (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
    gates = Gates(api, f"{namespace}.example.io")
    await gates.define(VERSIONS, hook)
    return gates


def _managers_in(listed: Answer) -> Any:
    return {item["metadata"]["name"]: managers(Answer(200, item)) for item in listed.ok()["items"]}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
async def test_both_servers_show_the_same_in_each_version(pair: Pair, hook: Webhook, seed: int) -> None:
    both = [await prepared(api, f"versions-{seed}", hook) for api in pair.both]
    teller = Storyteller(seed)
    for number in range(STEPS):
        step = teller.step()
        embedded, real = [await told(gates, step) for gates in both]
        if any("null" in message for _, _, message in real.causes):
            return  # a map that an apply empties: there is another object from here on
        found = unlike(same_for_all(embedded, step[0]), same_for_all(real, step[0]))
        found += unlike(managers(embedded), managers(real))
        for each in ("v1", "v2"):
            lists = [await gates.api.get(gates.path(each)) for gates in both]
            found += unlike(*(_managers_in(answer) for answer in lists))
            found += unlike(*(same_for_all(answer, "GET") for answer in lists))
        assert not found, f"seed {seed}, step {number}: {step}: {found}"
