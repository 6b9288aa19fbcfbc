"""Objects of kinds that are installed, removed and changed while controllers refer to them."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.references.reference import Cause, Found, Reference, Version
from kubewright.runtime.references.registry import LINGER_SECONDS, LIST_SECONDS, References
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Answer, Faulty, is_watch
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource

OWNERS, VMS = "fleet.example.com", "cloud.example.com"
NAMESPACE = "default"
OWNER, OTHER = Key(NAMESPACE, "one"), Key(NAMESPACE, "two")
VM = Reference(VMS, "Vm", Key(NAMESPACE, "vm-1"))


class Labelled:
    """The rule of this test's API: the label ``use`` names the version; its contract is of the same name."""

    def crd_name(self, group, kind):
        return f"{kind.lower()}s.{group}"

    def choose(self, labels):
        return Version(labels["use"], "1") if labels.get("use") else "has no label use"


def definition(kind="Vm", plural="vms", *, use="v1", versions=("v1",)):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{VMS}", "labels": {"use": use} if use else {}},
        "spec": {
            "group": VMS,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[0], "schema": schema}
                for name in versions
            ],
        },
    }


class World:
    """A server, the references of one controller, and the owners that were woken."""

    def __init__(self):
        self.clock = LoopClock()
        self.server = ApiServer(self.clock)
        self.fault = None
        line = Faulty(InProcess(self.server.handle), self.clock, self._faulty)
        self.line, self.client = line, Client(line, self.clock)
        self.informers = Informers(self.client)
        self.references = References(self.client, self.informers, Labelled())
        self.lookup = self.references.lookup_for(OWNERS, "Thing")
        self.woken = []
        self.lookup.subscribe(lambda key, _why: self.woken.append(key.name))

    def _faulty(self, request):
        return self.fault if self.fault and f"/{VMS}/" in request.path else None

    async def install(self, *args, **kwargs):
        await self.client.create(CRD, definition(*args, **kwargs))

    async def uninstall(self, plural="vms"):
        await self.client.delete(CRD, Key("", f"{plural}.{VMS}"))

    async def make(self, name="vm-1", *, owner="", kind="Thing", version="v1", owner_version="v7"):
        references = [
            {
                "apiVersion": f"{OWNERS}/{owner_version}",
                "kind": kind,
                "name": owner,
                "uid": "u",
                "controller": False,
            }
        ]
        body = {"metadata": {"name": name, "ownerReferences": references if owner else []}}
        await self.client.create(vms(version), body, namespace=NAMESPACE)

    def get(self, reference=VM, owner=OWNER):
        return self.lookup.get(owner, reference)

    def cause(self, reference=VM, owner=OWNER):
        answer = self.get(reference, owner)
        return None if isinstance(answer, Found) else answer.cause

    async def wakes(self, seconds=10):
        """Who was woken since the last time, until so many seconds from now."""
        await asyncio.sleep(seconds)
        woken, self.woken[:] = sorted(set(self.woken)), []
        return woken

    def watches(self):
        """Watches on objects of the group that were begun so far."""
        asked = [request for _, request in self.line.asked]
        return sum(is_watch(request) and f"/{VMS}/" in request.path for request in asked)

    def discoveries(self):
        return sum(request.path == "/apis" for _, request in self.line.asked)

    @asynccontextmanager
    async def running(self, *, settle=1.0):
        await self.server.start()
        await asyncio.sleep(0)  # the server's own tasks have begun
        await asyncio.sleep(0)
        before = asyncio.all_tasks()
        tasks = [asyncio.create_task(each.run()) for each in (self.informers, self.references)]
        await asyncio.sleep(settle)
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert asyncio.all_tasks() <= before
        await self.server.close()


def vms(version="v1"):
    return dynamic(Resource(VMS, version, "vms", "Vm"))


@pytest.fixture
def world():
    return World()


async def test_the_first_lookup_answers_at_once_and_the_object_is_there_when_the_list_is(world):
    async with world.running():
        await world.install()
        await world.make()
        await asyncio.sleep(1)
        assert world.cause() is Cause.NOT_SYNCED
        assert world.get().transient
        assert await world.wakes() == ["one"]
        found = world.get()
        assert isinstance(found, Found)
        assert (found.object["metadata"]["name"], found.kind.resource.version, found.contract) == (
            "vm-1",
            "v1",
            "1",
        )


async def test_before_the_kinds_of_the_server_are_listed_a_lookup_says_so_and_wakes_later(world):
    async with world.running(settle=0.0):
        assert world.cause() is Cause.NOT_LISTED
        assert await world.wakes(3) == ["one"]
        assert world.cause() is Cause.NOT_INSTALLED


async def test_a_kind_that_is_installed_later_needs_no_restart(world):
    async with world.running():
        answer = world.get()
        assert answer.message == (
            "the kind Vm.cloud.example.com is not installed: there is no "
            "CustomResourceDefinition vms.cloud.example.com; is its provider installed?"
        )
        assert answer.transient
        assert await world.wakes(3600) == ["one"]
        assert not world.get().transient
        await world.install()
        await world.make()
        assert await world.wakes() == ["one"]
        world.get()
        await world.wakes()
        assert world.cause() is None


async def test_owners_that_refer_to_a_kind_that_is_removed_are_woken_and_its_watch_ends(world):
    async with world.running():
        await world.install()
        world.get()
        await world.wakes()
        assert world.cause() is Cause.MISSING
        await world.uninstall()
        assert await world.wakes() == ["one"]
        assert world.cause() is Cause.NOT_INSTALLED
        assert world.informers.statistics() == []


async def test_a_kind_that_comes_back_with_another_version_is_read_in_that_version(world):
    async with world.running():
        await world.install()
        await world.make()
        world.get()
        await world.wakes()
        assert world.get().kind.resource.version == "v1"
        await world.uninstall()
        await world.wakes()
        await world.install(use="v2", versions=("v2",))
        assert await world.wakes() == ["one"]
        await world.make(version="v2")
        world.get()
        await world.wakes()
        assert world.get().kind.resource.version == "v2"


async def test_a_label_that_names_another_version_replaces_the_watch(world):
    async with world.running():
        await world.install(versions=("v1", "v2"))
        await world.make()
        world.get()
        await world.wakes()
        await world.client.patch(CRD, Key("", f"vms.{VMS}"), {"metadata": {"labels": {"use": "v2"}}})
        assert await world.wakes() == ["one"]
        world.get()
        await world.wakes()
        assert world.get().kind.resource.version == "v2"
        assert len(world.informers.statistics()) == 1


async def test_other_changes_of_a_definition_disturb_nobody(world):
    async with world.running():
        await world.install()
        await world.make()
        world.get()
        await world.wakes()
        before = world.watches()
        await world.client.patch(CRD, Key("", f"vms.{VMS}"), {"metadata": {"labels": {"team": "red"}}})
        assert await world.wakes() == []
        assert world.watches() == before


async def test_a_kind_without_a_usable_version_says_why_until_it_has_one(world):
    async with world.running():
        await world.install(use="")
        await asyncio.sleep(1)
        answer = world.get()
        assert answer.cause is Cause.NO_VERSION
        assert answer.message == "the CustomResourceDefinition vms.cloud.example.com has no label use"
        await world.client.patch(CRD, Key("", f"vms.{VMS}"), {"metadata": {"labels": {"use": "v1"}}})
        assert await world.wakes() == ["one"]
        assert world.cause() is Cause.NOT_SYNCED


async def test_who_asked_for_an_object_is_woken_when_it_comes(world):
    async with world.running():
        await world.install()
        world.get()
        world.get(owner=OTHER)
        await world.wakes()
        answer = world.get()
        assert answer.message == "there is no Vm default/vm-1"
        await world.make()
        assert await world.wakes() == ["one"]


@pytest.mark.parametrize(
    ("owner", "changed", "gone"),
    [
        ({"owner": "one"}, ["one"], ["one"]),
        ({"owner": "one", "owner_version": "v99"}, ["one"], ["one"]),
        ({"owner": "two"}, ["one"], []),
        ({"owner": "one", "kind": "Other"}, ["one"], []),
        ({}, ["one"], []),
    ],
    ids=[
        "its owner",
        "its owner, whatever version the reference says",
        "once the one that looked at it, and not another owner, which asked for no object of the kind",
        "once the one that looked at it, if the reference names another kind",
        "once the one that looked at it, if it has no owner",
    ],
)
async def test_a_change_of_an_object_wakes(world, owner, changed, gone):
    async with world.running():
        await world.install()
        await world.make(**owner)
        world.get()
        await world.wakes()
        world.get()
        await world.client.patch(vms(), VM.key, {"status": {"ready": True}})
        assert sorted(await world.wakes()) == changed
        await world.client.delete(vms(), VM.key)
        assert await world.wakes() == gone


async def test_a_change_that_no_owner_can_see_wakes_none_and_the_next_wakes_all(world):
    def ready(obj):
        return obj.get("status", {}).get("ready")

    waiting = Key(NAMESPACE, "two")
    world.lookup.subscribe(
        lambda key, _why: world.woken.append(key.name),
        lambda before, after, _contract: ready(before) == ready(after),
    )
    async with world.running():
        await world.install()
        await world.make(owner="one")
        world.get()
        await world.wakes()
        world.get()
        world.get(owner=waiting)
        await world.client.patch(vms(), VM.key, {"metadata": {"finalizers": ["example.com/vm"]}})
        assert await world.wakes() == []
        await world.client.patch(vms(), VM.key, {"status": {"ready": True}})
        assert sorted(await world.wakes()) == ["one", "two"]


async def test_an_owner_that_loses_its_object_is_woken_with_the_new_one(world):
    async with world.running():
        await world.install()
        await world.make(owner="one")
        world.get()
        world.get(owner=Key(NAMESPACE, "two"))
        await world.wakes()
        owner = {"apiVersion": f"{OWNERS}/v1", "kind": "Thing", "name": "two", "uid": "u"}
        await world.client.patch(vms(), VM.key, {"metadata": {"ownerReferences": [owner]}})
        assert await world.wakes() == ["one", "two"]


async def test_a_thousand_objects_and_owners_share_one_watch(world):
    async with world.running():
        await world.install()
        await asyncio.sleep(1)
        for number in range(1000):
            await world.make(f"vm-{number}", owner=f"owner-{number}")
        owners = [
            (Key(NAMESPACE, f"owner-{n}"), Reference(VMS, "Vm", Key(NAMESPACE, f"vm-{n}")))
            for n in range(1000)
        ]
        for owner, reference in owners:
            assert world.cause(reference, owner) is Cause.NOT_SYNCED
        assert len(await world.wakes()) == 1000
        assert all(world.cause(reference, owner) is None for owner, reference in owners)
        assert world.watches() == 1
        await world.client.patch(vms(), Key(NAMESPACE, "vm-500"), {"spec": {"size": 2}})
        assert await world.wakes() == ["owner-500"]


async def test_a_kind_that_no_object_refers_to_is_watched_a_while_longer_and_then_no_more(world):
    async with world.running():
        await world.install()
        world.get()
        world.get(owner=OTHER)
        await world.wakes()
        world.lookup.forget(OWNER)
        await asyncio.sleep(2 * LINGER_SECONDS)
        assert [each.owners for each in world.references.watched()] == [1]
        world.lookup.forget(OTHER)
        await asyncio.sleep(LINGER_SECONDS / 2)
        assert len(world.informers.statistics()) == 1
        await asyncio.sleep(LINGER_SECONDS)
        assert world.informers.statistics() == []
        assert world.references.watched() == ()


async def test_an_owner_that_comes_in_time_keeps_the_watch(world):
    async with world.running():
        await world.install()
        world.get()
        await world.wakes()
        world.lookup.forget(OWNER)
        await asyncio.sleep(LINGER_SECONDS / 2)
        world.get(owner=OTHER)
        await asyncio.sleep(2 * LINGER_SECONDS)
        assert world.watches() == 1
        assert world.cause(owner=OTHER) is Cause.MISSING


async def test_a_definition_with_another_name_is_found_by_discovery(world):
    data = Reference(VMS, "Data", Key(NAMESPACE, "d"))
    async with world.running():
        await world.install("Data", "datae")
        assert world.cause(data) is Cause.NOT_INSTALLED
        assert await world.wakes() == ["one"]
        assert world.cause(data) is Cause.NOT_SYNCED
        await world.wakes()
        assert world.cause(data) is Cause.MISSING


async def test_discovery_is_asked_a_few_times_for_a_kind_that_nobody_serves(world):
    async with world.running():
        for _ in range(50):
            assert world.cause() is Cause.NOT_INSTALLED
            await asyncio.sleep(60)
        assert world.discoveries() <= 2


async def test_a_kind_that_the_server_does_not_list_says_so_and_recovers(world):
    async with world.running():
        await world.install()
        await world.make()
        world.fault = Answer(403)
        world.get()
        assert await world.wakes(100) == ["one"]
        answer = world.get()
        assert (answer.cause, answer.transient) == (Cause.NOT_SYNCED, False)
        assert answer.message.startswith(
            "the objects of kind Vm.cloud.example.com are not listed yet: Forbidden"
        )
        world.fault = None
        assert await world.wakes(100) == ["one"]
        assert world.cause() is None


async def test_each_term_of_leadership_begins_anew_on_caches_that_stay(world):
    async with world.running():
        await world.install()
        await world.make(owner="one")
        for _ in range(2):
            borrowed = world.informers.borrow(world.client)
            references = References(world.client, borrowed, Labelled())
            lookup, woken = references.lookup_for(OWNERS, "Thing"), []
            lookup.subscribe(lambda key, _why, woken=woken: woken.append(key.name))
            term = asyncio.create_task(references.run())
            await asyncio.sleep(1)
            assert lookup.get(OWNER, VM).cause is Cause.NOT_SYNCED
            await asyncio.sleep(1)
            assert isinstance(lookup.get(OWNER, VM), Found)
            await world.client.patch(vms(), VM.key, {"spec": {"size": 2}})
            assert woken[-1] == "one"
            term.cancel()
            await asyncio.wait([term])
            borrowed.give_back()
            assert world.informers.statistics() == []


async def test_an_owner_that_comes_after_the_last_one_went_is_woken_by_a_list_that_was_late(world):
    async with world.running():
        await world.install()
        world.fault = Answer(403)
        world.get()
        await asyncio.sleep(30)
        world.lookup.forget(OWNER)
        await asyncio.sleep(LIST_SECONDS)
        assert world.cause(owner=OTHER) is Cause.NOT_SYNCED
        world.woken.clear()
        world.fault = None
        assert await world.wakes(30) == ["two"]
        assert world.cause(owner=OTHER) is Cause.MISSING


async def test_discovery_is_asked_again_for_a_kind_whose_definition_came_and_went(world):
    async with world.running():
        world.get()
        await world.wakes()
        assert not world.get().transient
        await world.install()
        await world.wakes()
        world.get()
        await world.wakes()
        await world.uninstall()
        await world.wakes()
        before = world.discoveries()
        assert world.get().transient
        await world.wakes()
        assert world.discoveries() > before


class NoGroups(Faulty):
    """A line to a server that starts: its discovery does not show yet what its storage has."""

    async def request(self, request, *, timeout):
        response = await super().request(request, timeout=timeout)
        if request.path != "/apis":
            return response
        groups = json.loads(response.body)
        groups["items"] = [each for each in groups["items"] if each["metadata"]["name"] != VMS] + self.extra
        return replace(response, body=json.dumps(groups).encode())

    extra = ()


def starting(world, *, extra=()):
    line = NoGroups(InProcess(world.server.handle), world.clock, lambda _request: None)
    line.extra = [*extra]
    world.client.transport = line
    return line


@pytest.mark.parametrize("plural", ["vms", "vmachines"], ids=["of the usual name", "of another name"])
async def test_a_kind_that_discovery_does_not_show_yet_is_served_while_there_is_a_definition_of_it(
    world, plural
):
    async with world.running():
        await world.install(plural=plural)
        await world.install("Disk", "disks")
        await asyncio.sleep(1)
        line = starting(world)
        assert await world.lookup.is_served(VMS, "Vm")
        assert not await world.lookup.is_served(VMS, "Cpu")
        asked = len(line.asked)
        assert not await world.lookup.is_served(VMS, "Cpu")
        assert {request.path for _, request in line.asked[asked:]} == {"/api", "/apis"}, (
            "definitions are read once"
        )
        await world.uninstall(plural)
        await asyncio.sleep(1)
        assert not await world.lookup.is_served(VMS, "Vm")


async def test_a_definition_of_which_the_server_says_nothing_is_not_gone(world):
    """The cache knows the definition, and a proxy answers 404 in the server's place."""
    async with world.running():
        await world.install()
        await asyncio.sleep(1)
        line, path = starting(world), f"{CRD.resource.path()}/vms.{VMS}"
        line.choose = lambda request: Answer(404) if request.path == path else None
        with pytest.raises(NotFound):
            await world.lookup.is_served(VMS, "Vm")


async def test_a_group_of_an_extension_server_that_is_away_may_have_any_kind(world):
    async with world.running():
        stale = {
            "metadata": {"name": VMS},
            "versions": [{"version": "v1", "freshness": "Stale", "resources": []}],
        }
        starting(world, extra=[stale])
        assert await world.lookup.is_served(VMS, "Vm")
        assert not await world.lookup.is_served("other.example.com", "Vm")


async def test_before_the_definitions_are_listed_no_kind_is_certainly_not_served(world):
    await world.server.start()
    assert await world.lookup.is_served(VMS, "Vm")
    await world.server.close()
