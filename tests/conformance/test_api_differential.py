"""The same random requests to both servers: every answer must be the same.

Each step is a request that both servers get, and what they answer (code, reason, message, causes and the
object without what must differ: uids, versions, times, managed fields) is compared. A story is named by its
seed, so a difference can be told again: ``STORIES=1 SEED=17 make test-kube ARGS='-k differential'``.
"""

import asyncio
import copy
import random
from typing import Any

import pytest
from tests.conformance.pairs import FIRST, STORIES, Pair, Step, comparable, plain, prepared, unlike

from kubewright.testing.api import Api, Object
from kubewright.wire.http import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

STEPS = 60
NAMES = ("a", "b", "c")
GROUP = "stories.example.io"
WIDGET = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
                "mode": {"type": "string", "enum": ["x", "y"]},
                "parts": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 7}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "n": {"type": "integer"}}},
    },
}
DEFINITION = {
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": WIDGET},
            }
        ],
    },
}
ROLES = "roles.rbac.authorization.k8s.io"
LEASES = "leases.coordination.k8s.io"
KINDS = ("configmaps", "secrets", "pods", f"widgets.{GROUP}", f"widgets.{GROUP}", LEASES, ROLES)


class Storyteller:
    """Draws steps. Small vocabularies, so that steps meet each other's objects."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def step(self) -> Step:
        kind = self.random.choice(KINDS)
        name = self.random.choice(NAMES)
        weighed = {
            self.create: 5,
            self.replace: 3,
            self.merge: 5,
            self.strategic: 2,
            self.json: 2,
            self.status: 2,
            self.delete: 3,
            self.read: 1,
            self.list: 1,
            self.clear: 1,
        }
        (chosen,) = self.random.choices(list(weighed), list(weighed.values()))
        return chosen(kind, name)

    def create(self, kind: str, name: str) -> Step:
        return Step("POST", kind, "", self.object(kind, name), about=name, query=self.query())

    def replace(self, kind: str, name: str) -> Step:
        if kind in (LEASES, ROLES, "pods"):  # listed: those are made when missing; plugins look at these
            return self.read(kind, name)
        body = self.object(kind, name)
        body["metadata"] |= self.maybe(
            {"resourceVersion": "<version>"}, {"resourceVersion": "1"}, {"uid": "<uid>"}
        )
        return Step("PUT", kind, name, body, query=self.dry())  # strictness comes before existence there

    def merge(self, kind: str, name: str) -> Step:
        return Step("PATCH", kind, name, self.change(kind), content_type=MERGE_PATCH, query=self.query())

    def strategic(self, kind: str, name: str) -> Step:
        return Step("PATCH", kind, name, self.change(kind), content_type=STRATEGIC_PATCH)

    def json(self, kind: str, name: str) -> Step:
        paths = (
            "/data/k",
            "/metadata/labels/x",
            "/metadata/labels",
            "/spec/size",
            "/spec/parts/0",
            "/spec/parts/-",
        )
        steps = [
            {"op": self.random.choice(("add", "replace", "remove", "test")), "path": self.random.choice(paths), "value": self.value()}
            for _ in range(self.random.choice((1, 1, 2)))
        ]  # fmt: skip
        return Step("PATCH", kind, name, steps, content_type=JSON_PATCH)

    def status(self, kind: str, name: str) -> Step:
        body = {
            "status": self.random.choice(({"phase": "Running"}, {"phase": "Failed"}, {"n": 3})),
            "spec": {"size": 5},
        }
        return Step("PATCH", kind, name, body, part="/status", content_type=MERGE_PATCH)

    def delete(self, kind: str, name: str) -> Step:
        options = self.maybe(
            {"preconditions": {"uid": "<uid>"}},
            {"preconditions": {"resourceVersion": "<version>"}},
            {"preconditions": {"uid": "wrong"}},
            {"gracePeriodSeconds": 0},
            {"gracePeriodSeconds": 5},
            {"propagationPolicy": "Background"},
        )
        if self.dry():  # in the body, because a real server reads either that or the query
            options["dryRun"] = ["All"]
        return Step("DELETE", kind, name, options or None)

    def read(self, kind: str, name: str) -> Step:
        return Step("GET", kind, name)

    def list(self, kind: str, name: str) -> Step:
        queries: tuple[dict[str, str], ...] = ({}, {"labelSelector": "x"}, {"labelSelector": "x=1"}, {"labelSelector": "x notin (1)"}, {"fieldSelector": f"metadata.name={name}"})  # fmt: skip
        return Step("GET", kind, "", query=self.random.choice(queries))

    def clear(self, kind: str, name: str) -> Step:
        """Take the finalizers off, so that stories go on."""
        return Step("PATCH", kind, name, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)

    def object(self, kind: str, name: str) -> Object:
        metadata = {"name": name, **self.metadata()}
        match kind:
            case "configmaps":
                return {"metadata": metadata, "data": self.data(), **self.maybe({"immutable": True})}
            case "secrets":
                return {
                    "metadata": metadata,
                    **self.maybe({"stringData": {"k": "v"}}, {"data": {"k": "dg=="}}, {"type": "t"}),
                }
            case "pods":
                spec: Object = {"containers": [{"name": "c", "image": self.random.choice(("i", "j"))}]}
                return {
                    "metadata": metadata,
                    "spec": spec | self.maybe({"nodeName": "n"}, {"terminationGracePeriodSeconds": 3}),
                }
            case "roles.rbac.authorization.k8s.io":
                rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
                return {"metadata": metadata, **self.maybe({"rules": [rule]}, {"rules": [{"verbs": []}]})}
            case "leases.coordination.k8s.io":
                return {
                    "metadata": metadata,
                    "spec": self.maybe(
                        {"holderIdentity": "me"}, {"leaseDurationSeconds": 0}, {"leaseTransitions": 2}
                    ),
                }
        return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": self.spec()}

    def change(self, kind: str) -> Object:
        found: Object = self.maybe(
            {"metadata": self.metadata()},
            {"metadata": {"resourceVersion": "<version>"}},
            {"metadata": {"labels": None}},
        )
        if kind == "configmaps":
            found |= self.maybe({"data": self.data()}, {"data": None}, {"immutable": None})
        elif kind.startswith("widgets"):
            found |= {"spec": self.spec()}
        elif kind == "pods":
            found |= self.maybe(
                {"spec": {"containers": [{"name": "c", "image": "k"}]}},
                {"spec": {"activeDeadlineSeconds": 9}},
            )
        elif kind == ROLES:
            found |= self.maybe({"rules": None}, {"rules": [{"verbs": ["get"]}]})
        elif kind == "secrets":
            found |= self.maybe({"stringData": {"l": "w"}}, {"type": "u"}, {"data": {"k": None}})
        else:
            found |= self.maybe({"spec": {"holderIdentity": "you"}}, {"spec": {"leaseDurationSeconds": -1}})
        return found

    def metadata(self) -> Object:
        return self.maybe(
            {"labels": {"x": "1"}},
            {"labels": {"x": "2", "y": "3"}},
            {"annotations": {"n": "v"}},
            {"finalizers": ["example.io/hold"]},
            {"finalizers": ["example.io/hold", "example.io/more"]},
        )

    def data(self) -> Object:
        return {key: self.random.choice(("v", "w")) for key in self.random.sample(("k", "l", "m"), 2)}

    def spec(self) -> Object:
        parts = [{"name": "p"}, {"name": "q", "n": 1}, {"n": 2}, {"name": "r", "odd": True}]
        found: Object = {}
        for name, values in {
            "size": (1, 5, 12, "many", None, 3.0),
            "mode": ("x", "z", None),
            "parts": (self.random.sample(parts, 2), parts, [], None),
            "free": ({"any": [1, {"b": None}]}, {}, None),
            "unknown": (1,),
        }.items():
            if self.random.random() < 0.3:
                found[name] = self.random.choice(values)
        return found

    def value(self) -> Any:
        return self.random.choice(("v", "1", 3, {"x": "1"}, {"name": "p"}))

    def query(self) -> dict[str, str]:
        return self.dry() | self.random.choice(
            ({}, {}, {"fieldValidation": "Strict"}, {"fieldValidation": "Ignore"})
        )

    def dry(self) -> dict[str, str]:
        return {"dryRun": "All"} if self.random.random() < 0.1 else {}

    def maybe(self, *choices: Object) -> Object:
        return copy.deepcopy(self.random.choice((*choices, {})))


async def sent(api: Api, kind: str, since: str) -> list[tuple[str, Any]]:
    """What a watch sends about a kind since the story began."""
    plural, _, group = kind.partition(".")
    path = api.at(plural, group=group)
    async with api.watch(path, resourceVersion=since, timeoutSeconds="1") as watch:
        events = [event for event in await watch.rest() if event["type"] != "BOOKMARK"]
    return [(event["type"], plain(event["object"])) for event in events]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
async def test_both_servers_tell_the_same_story(pair: Pair, seed: int) -> None:
    await prepared(pair, f"story-{seed}", DEFINITION)
    teller = Storyteller(seed)
    began = [(await api.get(api.at("secrets"))).ok()["metadata"]["resourceVersion"] for api in pair.both]
    for number in range(STEPS):
        step = teller.step()
        embedded, real = (comparable(answer, step.method) for answer in await pair.tell(step))
        found = unlike(embedded, real)
        assert not found, f"seed {seed}, step {number}: {step}: {found}"
    watched = sorted(set(KINDS) - {"pods"})  # listed: a Pod's end is told in two steps
    everything = [
        [sent(api, kind, since) for kind in watched] for api, since in zip(pair.both, began, strict=True)
    ]
    embedded, real = await asyncio.gather(*(asyncio.gather(*each) for each in everything))
    assert embedded == real, f"seed {seed}: {unlike(embedded, real)}"
