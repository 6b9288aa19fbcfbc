"""The same random applies and other writes to both servers: objects, managers and refusals must be the same.

As in ``test_api_differential``; here every write names its field manager, and ``managedFields`` are compared but
for their times. A story is named by its seed:
``STORIES=1 SEED=17 make test-kube ARGS='-k apply_differential'``.
"""

import random
from typing import Any

import pytest
from tests.conformance.pairs import FIRST, STORIES, Pair, Step, comparable, prepared, unlike

from kubewright.apiserver.fields.paths import decoded, shown
from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

STEPS = 50
GROUP = "applies.example.io"
WIDGETS = f"widgets.{GROUP}"
CRONJOBS = "cronjobs.batch"
LEASES = "leases.coordination.k8s.io"
KINDS = ("configmaps", "secrets", CRONJOBS, LEASES, WIDGETS, WIDGETS, WIDGETS)
NAMES = ("a", "b")
MANAGERS = ("one", "two", "kubectl")
TEXT: Object = {"type": "string"}
NUMBER: Object = {"type": "integer"}
PORT: Object = {
    "type": "object",
    "required": ["number"],
    "properties": {"number": NUMBER, "protocol": {**TEXT, "default": "TCP"}, "note": TEXT},
}
SPEC: Object = {
    "size": {**NUMBER, "default": 1},
    "mode": {**TEXT, "nullable": True},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["number", "protocol"],
        "items": PORT,
    },
    "steps": {"type": "array", "items": PORT},
    "where": {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"zone": TEXT, "rack": TEXT},
    },
    "limits": {"type": "object", "additionalProperties": NUMBER},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "any": {"x-kubernetes-int-or-string": True},
    "inner": {
        "type": "object",
        "properties": {"a": TEXT, "b": {"type": "object", "properties": {"c": TEXT}}},
    },
}
STATUS: Object = {
    "phase": TEXT,
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type"], "properties": {"type": TEXT, "status": TEXT}},
    },
}
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": SPEC},
        "status": {"type": "object", "properties": STATUS},
    },
}
DEFINITION: Object = {
    "metadata": {"name": WIDGETS},
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
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}
HEADS = {
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    CRONJOBS: ("batch/v1", "CronJob"),
    LEASES: ("coordination.k8s.io/v1", "Lease"),
    WIDGETS: (f"{GROUP}/v1", "Widget"),
}


class Storyteller:
    """Draws steps. Small vocabularies, so that managers meet each other's fields."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def step(self) -> Step:
        kind, name = self.random.choice(KINDS), self.random.choice(NAMES)
        weighed = {self.apply: 10, self.create: 2, self.merge: 4, self.json: 2, self.reset: 1, self.delete: 1}
        if kind == WIDGETS:
            weighed |= {self.status: 3, self.merge_status: 2}
        (chosen,) = self.random.choices(list(weighed), list(weighed.values()))
        return chosen(kind, name)

    def apply(self, kind: str, name: str) -> Step:
        query = self.writer() | self.random.choice(({}, {}, {"force": "true"}, {"dryRun": "All"}))
        return Step("PATCH", kind, name, self.object(kind, name), content_type=APPLY_PATCH, query=query)

    def create(self, kind: str, name: str) -> Step:
        return Step("POST", kind, "", self.object(kind, name), about=name, query=self.writer())

    def merge(self, kind: str, name: str) -> Step:
        body = self.content(kind) | {"metadata": self.metadata()}
        return Step("PATCH", kind, name, body, content_type=MERGE_PATCH, query=self.writer())

    def json(self, kind: str, name: str) -> Step:
        ways = (("add", "/metadata/labels/x", "9"), ("remove", "/data/k", None), ("remove", "/spec/ports/0", None),
                ("add", "/spec/tags/-", "z"), ("replace", "/spec/size", 7), ("add", "/data/l", "dg=="))  # fmt: skip
        op, path, value = self.random.choice(ways)
        step = {"op": op, "path": path, **({} if value is None else {"value": value})}
        return Step("PATCH", kind, name, [step], content_type=JSON_PATCH, query=self.writer())

    def reset(self, kind: str, name: str) -> Step:
        body: Object = {"metadata": {"managedFields": [{}] if self.random.random() < 0.5 else []}}
        return Step("PATCH", kind, name, body, content_type=MERGE_PATCH, query=self.writer())

    def delete(self, kind: str, name: str) -> Step:
        return Step("DELETE", kind, name)

    def status(self, kind: str, name: str) -> Step:
        query = self.writer() | self.random.choice(({}, {"force": "true"}))
        body = self.object(kind, name) | {"status": self.state()}
        return Step("PATCH", kind, name, body, part="/status", content_type=APPLY_PATCH, query=query)

    def merge_status(self, kind: str, name: str) -> Step:
        body = {"status": self.state(), **self.content(kind)}
        query = self.writer()
        return Step("PATCH", kind, name, body, part="/status", content_type=MERGE_PATCH, query=query)

    def writer(self) -> dict[str, str]:
        return {"fieldManager": self.random.choice(MANAGERS)}

    def object(self, kind: str, name: str) -> Object:
        version, word = HEADS[kind]
        metadata = {"name": name, **self.metadata()}
        return {"apiVersion": version, "kind": word, "metadata": metadata, **self.content(kind)}

    def metadata(self) -> Object:
        owner = {"apiVersion": "example.io/v1", "kind": "Unknown", "name": "o"}  # no collector looks for it
        owners = [owner | {"uid": uid} for uid in self.some(("u1", "u2"))]
        return self.fields(
            labels={key: self.random.choice("12") for key in self.some("xyz")},
            annotations={"n": self.random.choice("vw")},
            finalizers=[f"example.io/{letter}" for letter in self.some("ab")],
            ownerReferences=owners,
        )

    def content(self, kind: str) -> Object:
        match kind:
            case "configmaps":
                return self.fields(data={key: self.random.choice("vw") for key in self.some("klm")})
            case "secrets":
                plain = {key: self.random.choice(("dg==", "dw==")) for key in self.some("klm")}
                return self.fields(data=plain, stringData={"s": self.random.choice("vw")})
            case "leases.coordination.k8s.io":
                seconds = self.random.choice((1, 2))
                return {
                    "spec": self.fields(holderIdentity=self.random.choice("hi"), leaseDurationSeconds=seconds)
                }
            case "cronjobs.batch":
                return {"spec": self.cronjob()}
        return {"spec": self.fields(**self.spec())}

    def cronjob(self) -> Object:
        # Never empty: a patch that adds an empty list counts as a change of the spec here, and not upstream.
        env = [{"name": key, "value": self.random.choice("vw")} for key in self.some("AB") or "A"]
        ports = [{"containerPort": port} for port in self.some((80, 81)) or [82]]
        containers = [{"name": "c", "image": self.random.choice("ij"), **self.fields(env=env, ports=ports)}]
        pod = {"restartPolicy": "Never", "containers": containers, **self.fields(nodeSelector={"n": "v"})}
        template = {"template": {"spec": pod, **self.fields(metadata={"labels": {"x": "1"}})}}
        more = self.fields(successfulJobsHistoryLimit=self.random.choice((1, 2)))
        job = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
               "podReplacementPolicy": "TerminatingOrFailed"}  # fmt: skip
        return {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": template | job}, **more}

    def spec(self) -> Object:
        ports = [
            {"number": number, **self.fields(note=self.random.choice("mn"))}
            for number in self.some((1, 2, 3))
        ]
        return {
            "size": self.random.choice((1, 2, None)),
            "mode": self.random.choice(("x", "y", None)),
            "tags": self.some("abc"),
            "ports": ports,
            "steps": ports[:1],
            "where": self.fields(zone=self.random.choice("z1"), rack="r"),
            "limits": {key: self.random.choice((1, 2)) for key in self.some(("cpu", "gpu"))} or {"cpu": 1},
            "free": self.random.choice(({"any": [1, {"b": "c"}], "m": {"n": 1}}, {"m": {"o": 2}})),
            "any": self.random.choice((1, "1")),
            "inner": self.random.choice(({"a": "1"}, {"b": {"c": "1"}})),
            "unknown": 1,
        }

    def state(self) -> Object:
        conditions = [{"type": letter, "status": self.random.choice("TF")} for letter in self.some("AB")]
        return {"phase": self.random.choice("pq"), **self.fields(conditions=conditions)}

    def fields(self, **found: Any) -> Object:
        """Some of the fields; unknown ones rarely, since they refuse the whole object."""
        odd = {"unknown": 0.01}
        return {name: value for name, value in found.items() if self.random.random() < odd.get(name, 0.45)}

    def some(self, things: Any) -> list[Any]:
        """Some of them in any order."""
        return self.random.sample(list(things), self.random.randint(0, len(things)))


def managers(answer: Answer) -> Any:
    """The managers of the object in an answer, without times: manager to the paths that it has."""
    metadata = answer.body.get("metadata") or {} if isinstance(answer.body, dict) else {}
    return {
        f"{entry['manager']} {entry['operation']} {entry.get('subresource', '')} {entry['apiVersion']}":
        sorted(shown(path) for path in decoded(entry["fieldsV1"]))
        for entry in metadata.get("managedFields", ())
    }  # fmt: skip


def same_for_all(answer: Answer, method: str) -> Any:
    """What must be the same; without warnings, and with one code for what is no object of its kind."""
    found = comparable(answer, method)
    if answer.message.startswith("failed to create typed patch object"):
        return found[3]  # 500 upstream
    return found[:2] if isinstance(found, tuple) and len(found) == 3 else found


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
async def test_both_servers_know_the_same_managers(pair: Pair, seed: int) -> None:
    await prepared(pair, f"applies-{seed}", DEFINITION)
    teller = Storyteller(seed)
    left = set()
    for number in range(STEPS):
        step = teller.step()
        answers = await pair.tell(step)
        if any("null" in message for _, _, message in answers[1].causes):
            left.add(step.key)  # "a map that an apply empties": there is another object from here on
        if step.key in left:
            continue
        embedded, real = (same_for_all(answer, step.method) for answer in answers)
        found = unlike(embedded, real) + unlike(*map(managers, answers))
        assert not found, f"seed {seed}, step {number}: {step}: {found}"


POD: Object = {
    "containers": [
        {
            "name": "c",
            "image": "i:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "x"}}, {"name": "e", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "enableServiceLinks": True,
}  # fmt: skip
TEMPLATE: Object = {
    "selector": {"matchLabels": {"app": "a"}},
    "template": {"metadata": {"labels": {"app": "a"}}, "spec": POD},
}
NAMED_ROLE: Object = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
NEW: list[tuple[str, str, str, Object]] = [
    ("nodes", "v1", "Node", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}}),
    ("namespaces", "v1", "Namespace", {}),
    ("pods", "v1", "Pod", {"spec": POD}),
    ("services", "v1", "Service", {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}),
    ("secrets", "v1", "Secret", {"stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
    ("persistentvolumeclaims", "v1", "PersistentVolumeClaim",
     {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    ("deployments", "apps/v1", "Deployment", {"spec": {**TEMPLATE, "paused": True}}),
    ("statefulsets", "apps/v1", "StatefulSet", {"spec": {**TEMPLATE, "replicas": 0, "serviceName": "s"}}),
    ("poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1}}),
    ("endpointslices", "discovery.k8s.io/v1", "EndpointSlice",
     {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]}),
    ("rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
     {"roleRef": NAMED_ROLE, "subjects": [{"kind": "User", "name": "u"}]}),
    ("storageclasses", "storage.k8s.io/v1", "StorageClass", {"provisioner": "x", "parameters": {"a": "b"}}),
]  # fmt: skip
EVERYWHERE = ("nodes", "namespaces", "storageclasses")


async def test_new_objects_of_built_in_kinds_have_the_same_managers(pair: Pair) -> None:
    await prepared(pair, "new-objects", DEFINITION)
    for plural, version, kind, content in NEW:
        for name, apply in (("created", False), ("applied", True)):
            found = [await new(api, plural, version, kind, content, name, apply=apply) for api in pair.both]
            assert found[0] == found[1], f"{kind} {name}: {unlike(*found)}"


async def new(
    api: Api, plural: str, version: str, kind: str, content: Object, name: str, *, apply: bool
) -> Any:
    """What a new object's maker manages."""
    place = f"/{'apis' if '/' in version else 'api'}/{version}"
    path = f"{place}/{plural}" if plural in EVERYWHERE else f"{place}/namespaces/{api.namespace}/{plural}"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": f"new-{name}"}, **content}
    if apply:
        path = f"{path}/new-{name}"
        answer = await api.patch(path, body, content_type=APPLY_PATCH, fieldManager="maker")
    else:
        answer = await api.post(path, body, fieldManager="maker")
    answer.ok()
    return {who: paths for who, paths in managers(answer).items() if who.startswith("maker")}
