"""What a client leaves out, sets to null or leaves empty in a built-in kind: both servers take it or refuse it alike.

Go's structs are never absent, and a list that is required in the OpenAPI may be empty in them: which of the
``required`` marks are checked, and what is stored instead, only the real server says.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.pairs import Pair, comparable, unlike

from kubewright.testing.api import Api, Object

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]

SELECTS = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "env": [{"name": "E", "value": "v"}],
                "ports": [{"containerPort": 80}],
            }
        ],
        "volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}],
    },
}
TASK = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
REF = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
USER = {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}
DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}

OBJECTS: dict[str, Object] = {
    "configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
    "secrets": {"data": {"a": "Yg=="}},
    "serviceaccounts": {"secrets": [{"name": "s"}]},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "resourcequotas": {"spec": {"hard": {"pods": "1"}}},
    "pods": {"spec": TEMPLATE["spec"]},
    "replicationcontrollers": {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": TEMPLATE}},
    "services": {"spec": {"ports": [{"port": 80, "targetPort": 8080}], "selector": {"a": "b"}}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "controllerrevisions.apps": {"revision": 1, "data": {"a": 1}},
    "deployments.apps": {
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    },
    "daemonsets.apps": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "statefulsets.apps": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
            "serviceName": "s",
        }
    },
    "jobs.batch": {"spec": {"suspend": True, "template": TASK}},
    "cronjobs.batch": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TASK}}}},
    "leases.coordination.k8s.io": {"spec": {"holderIdentity": "h", "leaseDurationSeconds": 1}},
    "endpointslices.discovery.k8s.io": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        "ports": [{"port": 80, "name": "p"}],
    },
    "ingresses.networking.k8s.io": {
        "spec": {
            "rules": [
                {
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "s", "port": {"number": 80}}},
                            }
                        ]
                    }
                }
            ]
        }
    },
    "networkpolicies.networking.k8s.io": {
        "spec": {
            "podSelector": SELECTS,
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 80}]}],
        }
    },
    "poddisruptionbudgets.policy": {"spec": {"minAvailable": 1, "selector": SELECTS}},
    "roles.rbac.authorization.k8s.io": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "rolebindings.rbac.authorization.k8s.io": {"roleRef": REF, "subjects": [USER]},
    "resourceclaims.resource.k8s.io": {"spec": {"devices": DEVICES}},
    "resourceclaimtemplates.resource.k8s.io": {"spec": {"spec": {"devices": DEVICES}}},
    "horizontalpodautoscalers.autoscaling": {
        "spec": {
            "maxReplicas": 1,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        }
    },
    "csistoragecapacities.storage.k8s.io": {
        "storageClassName": "s",
        "capacity": "1Gi",
        "nodeTopology": SELECTS,
    },
    "/nodes": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "capacity": {"cpu": "1"}},
    },
    "/persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": "h"},
        }
    },
    "/clusterroles.rbac.authorization.k8s.io": {
        "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}],
        "aggregationRule": {"clusterRoleSelectors": [SELECTS]},
    },
    "/clusterrolebindings.rbac.authorization.k8s.io": {"roleRef": REF, "subjects": [USER]},
    "/priorityclasses.scheduling.k8s.io": {"value": 1},
    "/storageclasses.storage.k8s.io": {
        "provisioner": "p",
        "parameters": {"a": "b"},
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
    },
    "/csidrivers.storage.k8s.io": {"spec": {"attachRequired": True, "tokenRequests": [{"audience": "a"}]}},
    "/csinodes.storage.k8s.io": {
        "spec": {
            "drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["k"], "allocatable": {"count": 1}}]
        }
    },
    "/volumeattachments.storage.k8s.io": {
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    },
    "/ingressclasses.networking.k8s.io": {
        "spec": {"controller": "c/d", "parameters": {"kind": "k", "name": "n", "apiGroup": "g.io"}}
    },
    "/deviceclasses.resource.k8s.io": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "/resourceslices.resource.k8s.io": {
        "spec": {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        }
    },
}

Path = tuple[str | int, ...]


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in an object, the outer ones first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*at, key)
        yield from places(each, (*at, key))


def empty(value: Any) -> Any:
    """What a value is without content."""
    return type(value)()


def changes(whole: Object) -> Iterator[tuple[str, Object]]:
    """The object with each of its parts left out, null, and empty; and what was done."""
    for place in places(whole):
        *above, last = place
        for how in ("left out", "null", "empty"):
            changed = copy.deepcopy(whole)
            inside: Any = changed
            for key in above:
                inside = inside[key]
            if how == "left out":
                del inside[last]
            else:
                inside[last] = None if how == "null" else empty(inside[last])
            yield f"{'.'.join(map(str, place))} is {how}", changed


async def answered(api: Api, kind: str, body: Object) -> Any:
    """What a server says of this object; it is not stored."""
    plural, _, group = kind.strip("/").partition(".")
    path = api.at(plural, group=group)
    if kind.startswith("/"):
        path = path.replace(f"/namespaces/{api.namespace}", "")
    named = {**body, "metadata": {"name": "left-out"}}
    return comparable(await api.post(path, named, dryRun="All"), "POST")


LENIENT: dict[str, tuple[str, ...]] = {
    "csistoragecapacities": ("nodeTopology",),
    "endpoints": ("subsets",),
    "endpointslices": ("endpoints.0.addresses.0",),
    "horizontalpodautoscalers": ("spec.scaleTargetRef.apiVersion",),
    "ingresses": ("spec.rules.0.http.paths.0.backend",),
    "networkpolicies": ("spec.ingress.0",),
    "persistentvolumeclaims": ("spec.accessModes.0", "spec.resources.requests.storage"),
    "/csinodes": ("spec.drivers.0.topologyKeys.0",),
    "/deviceclasses": ("spec.selectors.0",),
    "/ingressclasses": ("spec.parameters.apiGroup",),
    "/persistentvolumes": ("spec.accessModes.0", "spec.capacity.storage"),
    "/storageclasses": ("allowedTopologies.0",),
    "/volumeattachments": ("spec.source.persistentVolumeName",),
}
"""Where the real server has rules that the embedded one lacks ("rules of these kinds" in api-differences.md)."""
OF_CONTAINERS = ("containerPort is empty", "configMap is empty", "configMap.name is")
"""The same of every kind with containers."""

ADDED = {
    "jobs.batch": ("metadata.labels", "spec.selector", "spec.manualSelector", "spec.template.metadata"),
    "daemonsets.apps": ("metadata.annotations",),
    "services": ("spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
    "persistentvolumeclaims": ("metadata.finalizers",),
    "horizontalpodautoscalers.autoscaling": ("spec.targetCPUUtilizationPercentage", "status"),
    "/nodes": ("spec.taints",),
    "/persistentvolumes": ("metadata.finalizers", "status.lastPhaseTransitionTime"),
}
"""What the real server adds by itself to objects of these kinds, and the embedded one does not."""


def without(body: Any, paths: tuple[str, ...]) -> Any:
    """The object without these places, and without what is the zero of a type in Go."""
    left = copy.deepcopy(body)
    for path in paths:
        inside: Any = left
        *above, last = path.split(".")
        for key in above:
            inside = inside.get(key) or {}
        inside.pop(last, None)
    return _without_zeros(left)


def _without_zeros(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_zeros(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _without_zeros(each) for key, each in value.items()}
    return {key: each for key, each in found.items() if each not in ("", 0, None, {}, [])}


def expected_leniency(kind: str, done: str) -> bool:
    """Whether the embedded server is known to take what was done to an object of this kind."""
    places = LENIENT.get(kind.partition(".")[0], ("-",))
    return done.startswith(places) or any(each in done for each in OF_CONTAINERS)


@pytest.mark.parametrize("kind", OBJECTS)
async def test_both_servers_take_or_refuse_what_is_left_out_alike(pair: Pair, kind: str) -> None:
    found = []
    for done, body in [("nothing", OBJECTS[kind]), *changes(OBJECTS[kind])]:
        embedded, real = [await answered(api, kind, body) for api in pair.both]
        codes = embedded[0], real[0]
        if codes == (201, 422) and expected_leniency(kind, done):
            continue
        if codes[0] != codes[1]:
            found.append(f"{done}: embedded {embedded}, real {real}")
        elif codes[0] == 201:
            ours, theirs = (without(each[1], ADDED.get(kind, ())) for each in (embedded, real))
            found += [f"{done}: {line}" for line in unlike(ours, theirs)]
    assert found == []


def test_nothing_is_called_lenient_that_is_not_among_the_objects() -> None:
    kinds = {each.partition(".")[0] for each in OBJECTS}
    assert set(LENIENT) <= kinds
    assert set(ADDED) <= set(OBJECTS)
