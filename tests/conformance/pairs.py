"""The same requests to the embedded server and to a real one, and what must be the same in their answers.

Theory.      A ``Step`` is one request; a ``Pair`` sends it to both servers. ``comparable`` leaves out of an answer
             what must differ (uids, versions, times, managed fields), and ``unlike`` says where two answers differ.
Invariants.  A test prepares the pair itself, with the definition of its own kind: each test has a new embedded
             server, which serves nothing that an earlier test defined, and the real one serves what all of them did.
Called by    ``test_api_differential``, ``test_api_apply_differential``.
"""

import copy
import os
import re
from typing import Any

from kubewright.testing.api import Answer, Api, Object

STORIES = int(os.environ.get("STORIES", "6"))
FIRST = int(os.environ.get("SEED", "1"))
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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
            if step.wide:
                path = path.replace(f"/namespaces/{api.namespace}", "", 1)
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
    """One request, the same for both. ``wide``: its kind has no namespace."""

    def __init__(self, method: str, kind: str, name: str = "", body: Any = None, **more: Any) -> None:
        self.method = method
        self.plural, _, self.group = kind.partition(".")
        self.name = name
        self.body = body
        self.part: str = more.get("part", "")
        self.wide: bool = more.get("wide", False)
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


async def prepared(pair: Pair, namespace: str, definition: Object) -> None:
    """Both servers have a new namespace, which calls work in, and serve the kind of ``definition``."""
    group = definition["spec"]["group"]
    for api in pair.both:
        api.namespace = namespace
        (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
        made = await api.post(CRDS, definition)
        assert made.code in (201, 409), made.message

        async def served(api: Api = api) -> bool:
            return (await api.get(api.at("widgets", group=group))).code == 200

        await api.eventually(served, "the definition is served")


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
