"""Conversions in the embedded server: functions in process, and webhooks that are away, slow or endless."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conformance.converters import (
    V1,
    V2,
    Change,
    Gates,
    Webhook,
    conversion,
    converted,
    version,
    webhook,
)

from kubewright.apiserver.http.kubelet_requests import may_be_dialled
from kubewright.apiserver.http.webhooks import any_address
from kubewright.apiserver.registry import reviews
from kubewright.apiserver.registry.versions import Conversions
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.kube.transport import InProcess
from kubewright.testing.api import Api, Object
from kubewright.wire.http import APPLY_PATCH

pytestmark = pytest.mark.looptime(False)
BOTH = [version("v1", V1), version("v2", V2, storage=True)]
SENT = {"length": 3, "unit": "m", "color": "red"}


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


@asynccontextmanager
async def served(conversions: Conversions | None = None, *, tenant: bool = False) -> AsyncIterator[Api]:
    clock = SystemClock()
    allowed = may_be_dialled if tenant else any_address
    server = ApiServer(clock, conversions=conversions or {}, webhooks=allowed)
    await server.start()
    try:
        yield Api(InProcess(server.handle), clock, "embedded", "default")
    finally:
        await server.close()


@pytest.fixture
async def gates(hook: Webhook) -> AsyncIterator[Gates]:
    async with served() as api:
        found = Gates(api)
        await found.define(BOTH, hook)
        yield found


async def test_a_kind_with_a_function_is_converted_in_process_whatever_its_definition_says(
    hook: Webhook,
) -> None:
    group = "g.example.io"
    asked = list[str]()

    def convert(obj: Object, to: str) -> Object:
        asked.append(to)
        assert "metadata" in obj
        return converted(obj, to)

    async with served({(group, "Gate"): convert}) as api:
        gates = Gates(api, group)
        await gates.define(BOTH, hook)
        (await gates.post("v1", "a", {"size": "3m"})).ok()
        assert (await gates.get("v2", "a"))["spec"] == {"length": 3, "unit": "m"}
        body = gates.gate("v2", "a", {"color": "red"})
        query = {"content_type": APPLY_PATCH, "fieldManager": "m"}
        (await api.patch(gates.path("v2", "a"), body, **query)).ok()
        assert (await gates.get("v1", "a"))["metadata"]["annotations"] == {"example.io/kept": "red"}
        async with api.watch(gates.path("v1")) as watch:
            assert (await watch.next("ADDED"))["object"]["spec"] == {"size": "3m"}
        for each, spec, labels in (("v1", {"size": "4k"}, {"x": "1"}), ("v2", {"length": 5}, {})):
            body = gates.gate(each, "a", spec, labels=labels)
            (await api.patch(gates.path(each, "a"), body, **query, force="true")).ok()
        (await gates.post("v2", "b", SENT)).ok()
        asked.clear()
        (await api.get(gates.path("v2"))).ok()
        (await api.patch(gates.path("v2", "b"), {"spec": {"length": 4}})).ok()
        assert not asked, "the version that is stored costs no conversion"
    assert not hook.asked


async def test_a_function_that_cannot_convert_says_why() -> None:
    def refuse(_obj: Object, _to: str) -> Object:
        raise ValueError("its annotation cannot be read")

    async with served({("g.example.io", "Gate"): refuse}) as api:
        gates = Gates(api, "g.example.io")
        await gates.define(BOTH)
        (await gates.post("v2", "a", SENT)).ok()
        answer = await api.get(gates.path("v1", "a"))
    said = "conversion webhook for g.example.io/v2, Kind=Gate failed: its annotation cannot be read"
    assert (answer.code, answer.message) == (500, said)


async def test_a_list_of_a_thousand_is_a_few_calls_and_each_object_is_converted_once(
    gates: Gates, hook: Webhook
) -> None:
    for number in range(1_000):
        (await gates.post("v2", f"g{number:04}", {"length": number, "unit": "m"})).ok()
    listed = (await gates.api.get(gates.path("v1"))).ok()["items"]
    assert [item["spec"]["size"] for item in listed] == [f"{number}m" for number in range(1_000)]
    assert [len(each["objects"]) for each in hook.asked] == [reviews.REVIEWED] * 2
    (await gates.api.get(gates.path("v1"))).ok()
    assert len(hook.asked) == 2


async def test_a_webhook_that_returns_fewer_objects_of_a_list_is_not_believed(
    gates: Gates, hook: Webhook
) -> None:
    for name in "abc":
        (await gates.post("v2", name, SENT)).ok()

    def fewer(answer: Object) -> Object:
        answer["response"]["convertedObjects"].pop()
        return answer

    hook.answers.append(fewer)
    answer = await gates.api.get(gates.path("v1"))
    said = f"conversion webhook for {gates.group}/v2, Kind=Gate returned 2 objects, expected 3"
    assert (answer.code, answer.message) == (500, said)


async def test_an_answer_that_has_no_end_is_cut(
    gates: Gates, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.apiserver.http.webhooks.ANSWER_BYTES", 100_000)
    (await gates.post("v2", "a", SENT)).ok()
    hook.answers.append(lambda _answer: b" " * 200_000)
    answer = await gates.api.get(gates.path("v1", "a"))
    assert answer.code == 500
    assert answer.message.endswith(": the answer has more than 100000 bytes")


def spec_of(spec: Object) -> Change:
    def change(answer: Object) -> Object:
        answer["response"]["convertedObjects"][0]["spec"] = spec
        return answer

    return change


def labels_of(labels: Object) -> Change:
    def change(answer: Object) -> Object:
        answer["response"]["convertedObjects"][0]["metadata"]["labels"] = labels
        return answer

    return change


def nested(levels: int) -> Object:
    return {"a": nested(levels - 1)} if levels else {}


def annotations_of(annotations: Object) -> Change:
    def change(answer: Object) -> Object:
        answer["response"]["convertedObjects"][0]["metadata"]["annotations"] = annotations
        return answer

    return change


LONG = "x" * 100_000
MANY = {f"k{number}": "v" for number in range(40_000)}
TOO_LONG = "Too long: may not be more than 262144 bytes"
ODD: dict[str, tuple[Change, str]] = {
    "nested": (spec_of(nested(400)), "failed: a converted object cannot be written as JSON: "),
    "large": (spec_of({"size": "x" * 4_000_000}), "failed: a converted object has 4000"),
    "version": (lambda answer: {**answer, "apiVersion": LONG}, "failed: expected webhook response of "),
    "label": (labels_of({LONG: "y"}), "returned invalid metadata: metadata.labels: Invalid value: "),
    "label-value": (labels_of({"x": LONG}), "returned invalid metadata: metadata.labels: Invalid value: "),
    "labels": (labels_of(MANY), f"returned invalid metadata: metadata.labels: {TOO_LONG}"),
    "annotations": (annotations_of(MANY), f"returned invalid metadata: metadata.annotation: {TOO_LONG}"),
    "label-type": (labels_of({LONG: 4}), "returned invalid metadata: metadata.labels[xxx"),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_answer_that_cannot_be_kept_or_shown_is_refused_in_few_words(
    gates: Gates, hook: Webhook, name: str
) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    change, said = ODD[name]
    for ask in (gates.api.get(gates.path("v1")), gates.api.patch(gates.path("v1", "a"), {"spec": {}})):
        hook.answers[:] = [change]
        async with asyncio.timeout(10):
            answer = await ask
        assert answer.code == 500
        assert said in answer.message
        assert len(answer.message) < 3_000


@pytest.mark.parametrize("url", ["https://x\\y/", "https://xn--/", "https://a..b/"])
async def test_a_url_whose_host_is_none_fails_with_a_sentence(gates: Gates, url: str) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    config = {"clientConfig": {"url": url}}
    (await gates.api.patch(gates.crd, {"spec": {"conversion": {"webhook": config}}})).ok()
    answer = await gates.api.get(gates.path("v1", "a"))
    assert answer.code == 500
    assert answer.message.startswith(f"conversion webhook for {gates.group}/v2, Kind=Gate failed: Post ")


async def test_a_slow_webhook_ends_its_own_request_and_delays_no_other(
    gates: Gates, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubewright.apiserver.http.webhooks.SECONDS", 0.3)
    (await gates.post("v2", "a", SENT)).ok()
    hook.gate.clear()
    slow = asyncio.create_task(gates.api.get(gates.path("v1", "a")))
    await asyncio.sleep(0)
    assert (await gates.get("v2", "a"))["spec"] == SENT
    assert not slow.done()
    answer = await slow
    assert answer.code == 500
    assert answer.message.endswith('/convert?timeout=30s": context deadline exceeded')
    hook.gate.set()
    assert (await gates.get("v1", "a"))["spec"] == {"size": "3m"}, "a failure is not remembered"


async def test_an_object_that_changes_while_it_is_converted_is_written_as_it_is_then(
    gates: Gates, hook: Webhook
) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    hook.gate.clear()
    patched = asyncio.create_task(gates.api.patch(gates.path("v1", "a"), {"spec": {"replicas": 2}}))
    await asyncio.sleep(0)
    (await gates.api.patch(gates.path("v2", "a"), {"spec": {"length": 9, "color": "blue"}})).ok()
    hook.gate.set()
    assert (await patched).ok()["spec"] == {"size": "9m", "replicas": 2}
    assert (await gates.get("v2", "a"))["spec"] == {"length": 9, "unit": "m", "color": "blue", "replicas": 2}


async def test_a_name_that_is_generated_is_the_same_in_each_attempt(gates: Gates, hook: Webhook) -> None:
    body = gates.gate("v1", "", {"size": "3m"}, generateName="g-")
    del body["metadata"]["name"]
    made = (await gates.api.post(gates.path("v1"), body)).ok()
    names = {obj["metadata"]["name"] for each in hook.asked for obj in each["objects"]}
    assert names == {made["metadata"]["name"]}


async def test_a_watch_ends_when_the_conversion_changes_and_shows_the_new_one_when_it_begins_anew(
    gates: Gates, hook: Webhook
) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    with webhook() as other:
        async with gates.api.watch(gates.path("v1")) as watch:
            seen = (await watch.next("ADDED"))["object"]
            assert seen["spec"] == {"size": "3m"}
            changed = {"spec": {"conversion": conversion(other)}}
            (await gates.api.patch(gates.crd, changed)).ok()
            assert not await watch.rest()
        old = await gates.api.get(
            gates.path("v1"), watch="true", resourceVersion=seen["metadata"]["resourceVersion"]
        )
        assert old.code == 410
        asked = len(hook.asked)
        async with gates.api.watch(gates.path("v1")) as watch:
            await watch.next("ADDED")
        assert (len(hook.asked), len(other.asked)) == (asked, 1)


WAYS: dict[str, list[Object]] = {
    "removed": [version("v2", V2, storage=True)],
    "not served": [{**version("v1", V1), "served": False}, version("v2", V2, storage=True)],
    "joined by another": [*BOTH, version("v3", V2)],
}


@pytest.mark.parametrize("way", WAYS)
async def test_watches_end_when_there_are_other_versions(way: str) -> None:
    async with served() as api:
        gates = Gates(api)
        await gates.define(BOTH)
        (await gates.post("v2", "a", SENT)).ok()
        async with api.watch(gates.path("v1")) as watch:
            await watch.next("ADDED")
            (await api.patch(gates.crd, {"spec": {"versions": WAYS[way]}})).ok()
            async with asyncio.timeout(5):
                assert not await watch.rest()
        assert (await api.get(gates.path("v1"))).code == (200 if way == "joined by another" else 404)
        assert (await gates.get("v2", "a"))["spec"] == SENT


async def test_managers_of_twenty_versions_apply_by_turns_and_may_outlive_their_versions(
    hook: Webhook,
) -> None:
    def of(name: str, spec: Object, **more: str) -> tuple[str, Object, Object]:
        query = {"content_type": APPLY_PATCH, "force": "true", "fieldManager": more.get("by", name)}
        return gates.path(name, "a"), gates.gate(name, "a", spec, labels={name: "x"}), query

    async with served() as api:
        gates = Gates(api)
        names = [f"v{number}" for number in range(2, 22)]
        each = [version("v2", V2, storage=True), *(version(name, V1) for name in names[1:])]
        await gates.define([version("v1", V1), *each], hook)
        managers = [
            {"manager": name, "operation": "Apply", "apiVersion": f"{gates.group}/{name}",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{name}": {}}}}}
            for name in names
        ]  # fmt: skip
        spec = {"replicas": 1, "length": 1, "unit": "m"}
        (await gates.post("v2", "a", spec, labels=dict.fromkeys(names, "x"))).ok()
        told = {"metadata": {"managedFields": managers}}
        (await api.patch(gates.path("v2", "a"), told)).ok()
        assert len((await gates.get("v2", "a"))["metadata"]["managedFields"]) == 20
        for length in range(2):
            for name, spec in (("v1", {"size": f"{length}m"}), ("v2", {"length": length + 5, "unit": "m"})):
                path, body, query = of(name, spec, by="turns")
                (await api.patch(path, body, **query)).ok()
        left = {"spec": {"versions": [version("v1", V1), version("v2", V2, storage=True)]}}
        (await api.patch(gates.crd, left)).ok()
        path, body, query = of("v2", {"color": "blue"}, by="last")
        seen = (await api.patch(path, body, **query)).ok()
    assert seen["spec"] == {"length": 6, "unit": "m", "color": "blue", "replicas": 1}
    kept = {entry["apiVersion"].rpartition("/")[2] for entry in seen["metadata"]["managedFields"]}
    assert kept == {"v2"}


async def test_many_who_watch_ask_for_a_change_once(gates: Gates, hook: Webhook) -> None:
    async def second() -> object:
        async with gates.api.watch(gates.path("v1")) as watch:
            return (await watch.next("ADDED"))["object"]["spec"]

    watching = [asyncio.create_task(second()) for _ in range(20)]
    await asyncio.sleep(0)
    (await gates.post("v2", "a", SENT)).ok()
    assert await asyncio.gather(*watching) == [{"size": "3m"}] * 20
    assert len(hook.asked) == 1


async def test_storage_that_moves_while_objects_are_written_loses_none(gates: Gates) -> None:
    async def write(name: str) -> None:
        (await gates.post("v2", name, SENT)).ok()
        (await gates.api.patch(gates.path("v1", name), {"spec": {"replicas": 5}})).ok()

    writes = asyncio.gather(*(write(f"g{number}") for number in range(300)))
    moved = [version("v1", V1, storage=True), version("v2", V2)]
    await asyncio.sleep(0)
    (await gates.api.patch(gates.crd, {"spec": {"versions": moved}})).ok()
    await writes
    listed = (await gates.api.get(gates.path("v2"))).ok()["items"]
    assert [item["spec"] for item in listed] == [{**SENT, "replicas": 5}] * 300
    assert (await gates.api.get(gates.crd)).ok()["status"]["storedVersions"] == ["v2", "v1"]


async def test_objects_of_versions_come_back_after_a_restart_and_go_with_their_definition(
    hook: Webhook, tmp_path: Path
) -> None:
    clock = SystemClock()
    first = ApiServer(clock, path=tmp_path)
    await first.start()
    gates = Gates(Api(InProcess(first.handle), clock, "embedded", "default"), "g.example.io")
    await gates.define(BOTH, hook)
    (await gates.post("v1", "a", {"size": "3m"})).ok()
    await first.close()
    again = ApiServer(clock, path=tmp_path)
    await again.start()
    gates = Gates(Api(InProcess(again.handle), clock, "embedded", "default"), "g.example.io")
    assert (await gates.get("v1", "a"))["spec"] == {"size": "3m"}
    assert (await gates.get("v2", "a"))["spec"] == {"length": 3, "unit": "m"}
    asked = len(hook.asked)
    (await gates.api.delete(gates.crd)).ok()
    await gates.api.gone(gates.crd)
    assert len(hook.asked) == asked, "what is deleted with its definition needs no webhook"
    await again.close()


async def test_a_tenant_reaches_nothing_beside_the_server(hook: Webhook) -> None:
    async with served(tenant=True) as api:
        gates = Gates(api)
        await gates.define(BOTH, hook)
        (await gates.post("v2", "a", SENT)).ok()
        answer = await api.get(gates.path("v1", "a"))
    assert answer.code == 500
    assert answer.message.endswith("address not allowed: 127.0.0.1")
    assert not hook.asked


async def test_a_service_is_found_by_its_slices_or_says_that_there_is_no_network(hook: Webhook) -> None:
    port = int(hook.url.split(":")[2].split("/")[0])
    async with served() as api:
        gates = Gates(api)
        told = {
            "clientConfig": {"service": {"name": "s", "namespace": "default"}},
            "conversionReviewVersions": ["v1"],
        }
        await gates.define(BOTH)
        changed = {"spec": {"conversion": {"strategy": "Webhook", "webhook": told}}}
        crd = (await api.patch(gates.crd, changed)).ok()
        assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
        (await gates.post("v2", "a", SENT)).ok()
        lacking = await api.get(gates.path("v1", "a"))
        assert lacking.message.endswith('Post "https://s.default.svc/?timeout=30s": service "s" not found')
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 443}]}}
        (await api.post(api.at("services"), service)).ok()
        empty = await api.get(gates.path("v1", "a"))
        assert (
            'no endpoints available for service "s"; this server has no network of services' in empty.message
        )
        piece = {
            "metadata": {"name": "s1", "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"port": port}],
        }
        without = {**piece, "metadata": {**piece["metadata"], "name": "s0"}, "ports": [{"protocol": "TCP"}]}
        (await api.post(api.at("endpointslices", group="discovery.k8s.io"), without)).ok()
        assert "no endpoints available" in (await api.get(gates.path("v1", "a"))).message
        (await api.post(api.at("endpointslices", group="discovery.k8s.io"), piece)).ok()
        found = await api.get(gates.path("v1", "a"))
        assert "tls: failed to verify certificate" in found.message, "it is for another name"
