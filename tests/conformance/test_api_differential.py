"""The same random requests to both servers: every answer must be the same.

Each step is a request that both servers get, and what they answer (code, reason, message, causes and the
object without what must differ: uids, versions, times, managed fields) is compared. A story is named by its
seed, so a difference can be told again: ``STORIES=1 SEED=17 make test-kube ARGS='-k differential'``.
"""

import asyncio
import copy
import os
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.testing.api import Answer, Api, Object
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.servers import embedded_api, real_api
from kubewright.wire.http import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

STORIES = int(os.environ.get("STORIES", "6"))
FIRST = int(os.environ.get("SEED", "1"))
STEPS = 60
NAMES = ("a", "b", "c")
GROUP = "stories.example.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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
CHANGING = {"continue", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"}
UNLIKE = {"serviceAccount", "serviceAccountName"}
"""The real Kubernetes runs without the ServiceAccount plugin (``real_kubernetes.commands`` says why), we fill these in."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Pair:
    """Both servers. Placeholders in a request stand for what each of them gave an object."""

    def __init__(self, embedded: Api, real: Api) -> None:
        self.both = (embedded, real)
        self.seen: list[dict[str, Object]] = [{}, {}]

    async def tell(self, step: "Step") -> list[Answer]:
        answers = []
        for api, seen in zip(self.both, self.seen, strict=True):
            body = filled(copy.deepcopy(step.body), seen.get(step.key, {}))
            path = f"{api.at(step.plural, step.name, group=step.group)}{step.part}"
            answer = await api.call(step.method, path, body, query=step.query, content_type=step.content_type)
            answers.append(answer)
            if (
                answer.code < 300
                and isinstance(answer.body, dict)
                and "uid" in answer.body.get("metadata", {})
            ):
                seen[step.key] = answer.body["metadata"]
        return answers


class Step:
    """One request, the same for both."""

    def __init__(self, method: str, kind: str, name: str = "", body: Any = None, **more: Any) -> None:
        self.method = method
        self.plural, _, self.group = kind.partition(".")
        self.name = name
        self.body = body
        self.part: str = more.get("part", "")
        self.query: dict[str, str] = more.get("query", {})
        self.content_type: str = more.get("content_type", "application/json")
        self.key = f"{kind}/{more.get('about', name)}"

    def __str__(self) -> str:
        return (
            f"{self.method} {self.plural}/{self.name}{self.part} {self.query} {self.content_type} {self.body}"
        )


def filled(value: Any, seen: Object) -> Any:
    """``<uid>``, ``<version>`` become what this server gave, or something wrong when there is nothing."""
    if isinstance(value, dict):
        return {key: filled(inner, seen) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, seen) for inner in value]
    match value:
        case "<uid>":
            return seen.get("uid", "00000000-0000-4000-8000-000000000000")
        case "<version>":
            return seen.get("resourceVersion", "1")
    return value


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


def comparable(answer: Answer, method: str) -> Any:
    """What must be the same on both servers."""
    body = answer.body
    if not isinstance(body, dict):
        return answer.code, body
    if method == "DELETE" and answer.code == 200 and not body.get("metadata", {}).get("finalizers"):
        return answer.code  # a real server shows the last of some kinds, and a Status for others
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        causes = sorted({(reason, field, said(message)) for reason, field, message in answer.causes})
        about = {name: details.get(name) for name in ("name", "group", "kind")}
        message = "" if len(causes) > 1 else said(answer.message)  # several come in no order
        return answer.code, body.get("status"), answer.reason, message, about, causes
    for item in body.get("items", ()):  # a real server leaves them out of what it has types for
        item.pop("kind", None), item.pop("apiVersion", None)
    return answer.code, plain(body), "warning" in answer.headers


def said(message: str) -> str:
    """A message without what must differ: quoted objects, versions, and what we do not offer."""
    message = re.sub(r'Invalid value: "\{.*\}": ', "Invalid value: <object>: ", message, flags=re.DOTALL)
    message = message.partition("\n@@")[0]  # the real one shows what changed in a Pod, in Go's words
    return TIME.sub("<time>", UUID.sub("<uid>", re.sub(r"\((\d+)\)", "(<version>)", message)))


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {key: plain(inner) for key, inner in value.items() if key not in CHANGING | UNLIKE}
    return {key: inner for key, inner in found.items() if inner not in ({}, [], None)}  # emptied, or left out


def unlike(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two answers differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for key in sorted(one.keys() | other.keys())
            for line in unlike(one.get(key), other.get(key), f"{path}.{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            line
            for n, pair in enumerate(zip(one, other, strict=True))
            for line in unlike(*pair, f"{path}[{n}]")
        ]
    return [] if one == other else [f"{path}: embedded {one!r}, real {other!r}"]


@pytest.fixture
async def pair(real_kubernetes: RealKubernetes) -> AsyncIterator[Pair]:
    async with embedded_api() as embedded, real_api(real_kubernetes) as real:
        yield Pair(embedded, real)


async def prepared(pair: Pair, namespace: str) -> None:
    for api in pair.both:
        api.namespace = namespace
        (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
        made = await api.post(CRDS, DEFINITION)
        assert made.code in (201, 409), made.message

        async def served(api: Api = api) -> bool:
            return (await api.get(api.at("widgets", group=GROUP))).code == 200

        await api.eventually(served, "the definition is served")


async def sent(api: Api, kind: str, since: str) -> list[tuple[str, Any]]:
    """What a watch sends about a kind since the story began."""
    plural, _, group = kind.partition(".")
    path = api.at(plural, group=group)
    async with api.watch(path, resourceVersion=since, timeoutSeconds="1") as watch:
        events = [event for event in await watch.rest() if event["type"] != "BOOKMARK"]
    return [(event["type"], plain(event["object"])) for event in events]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
async def test_both_servers_tell_the_same_story(pair: Pair, seed: int) -> None:
    await prepared(pair, f"story-{seed}")
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
