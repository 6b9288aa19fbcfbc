"""EC2 as far as moto is it, and the rest of it: a server on a loopback address, with moto behind it.

What moto lacks and EC2 has, this server adds: ClientTokens (the same token answers the same instance, another request
with it is refused, and so is that of an instance that has ended), the filter ``client-token``, IPv6 prefixes, tags of the
interfaces that a launch makes, interfaces that follow the source and destination check of their instance, instances that take a while to end, and lists that lag.
What may happen to any request on its way, ``Fault`` names.
"""

import asyncio
import enum
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree

from aiohttp import web
from werkzeug.test import Client

AMIS = Path(__file__).parent / "amis.json"
"""moto has eight hundred of them by itself, which take longer to load than most tests."""

REGION = "eu-west-1"
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
"""As moto writes it; EC2 has a slash at the end."""

ElementTree.register_namespace("", NAMESPACE)
Parameters = dict[str, str]
ADMINISTRATOR = "AKIAADMINISTRATOR000"


TERMINATED = (
    f'<TerminateInstancesResponse xmlns="{NAMESPACE}"><instancesSet><item><instanceId>{{}}</instanceId><currentState>'
    "<code>48</code><name>terminated</name></currentState><previousState><code>48</code><name>terminated</name>"
    "</previousState></item></instancesSet><requestId>r</requestId></TerminateInstancesResponse>"
)
"""What EC2 answers where an instance has ended; moto refuses a second end of one with an interface."""


@dataclass(frozen=True, slots=True)
class Place:
    """moto, and what there is from the start."""

    client: Any
    """boto3's, past this server: what is really there."""
    ami: str
    arm_ami: str
    subnet: str
    group: str

    def instances(self, cluster: str) -> list[Mapping[str, Any]]:
        """The instances of a cluster that have not ended, as EC2 tells of them."""
        if not (live := [each.id for each in self.live(cluster)]):
            return []
        found = self.client.describe_instances(InstanceIds=live)["Reservations"]
        return [each for one in found for each in one["Instances"]]

    def live(self, cluster: str) -> list[Any]:
        """The same as moto has them, without a request: a test asks for them at each step."""
        every = [each for one in kept().reservations.values() for each in one.instances]
        return [each for each in every if is_of(each.id, cluster) and each.state != "terminated"]

    def forget(self, cluster: str) -> None:
        """Forget what has ended. moto keeps it for ever, and looks through all of it at each request."""
        backend = kept()
        for name, one in list(backend.reservations.items()):
            if all(is_of(each.id, cluster) for each in one.instances):
                del backend.reservations[name]
        for resource in [each for each in backend.tags if is_of(each, cluster)]:
            del backend.tags[resource]


@cache
def moto(service: str = "ec2") -> Client:
    """moto, as what it is: an application of WSGI."""
    os.environ.setdefault("MOTO_AMIS_PATH", str(AMIS))  # it is read with the import
    from moto.moto_server.werkzeug_app import create_backend_app

    return Client(create_backend_app(service))


def kept() -> Any:
    """What moto has in its memory."""
    from moto.backends import get_backend
    from moto.core import DEFAULT_ACCOUNT_ID

    return get_backend("ec2")[DEFAULT_ACCOUNT_ID][REGION]


def is_of(resource: str, cluster: str) -> bool:
    return f"kubernetes.io/cluster/{cluster}" in kept().tags.get(resource, ())


class Fault(enum.Enum):
    """What happens to a request."""

    LOST = "its answer is lost"
    REPEATED = "it arrives twice"
    THROTTLED = "it is throttled"
    LATE = "its answer comes after the deadline"
    REORDERED = "it is given up, and arrives after the next one"
    FAILED = "EC2 fails by itself"
    GARBLED = "the answer is no answer of EC2"
    BROKEN_OFF = "its answer breaks off"
    ANOTHERS = "it is carried out, and a proxy answers with a page of its own"


class Ec2:
    """The server. ``faults``: what happens to the next requests of an operation, one after the other."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._runs: dict[str, tuple[Parameters, str, str]] = {}
        self._held: list[Parameters] = []
        self.faults: dict[str, list[Fault]] = {}
        self.errors: dict[str, list[tuple[str, str, int]]] = {}
        """Refusals of the next requests of an operation: EC2's code, its text and the status of HTTP."""
        self.counts: Counter[str] = Counter()
        self.requests: list[Parameters] = []
        self.unshown: set[str] = set()
        """Instances that no list shows yet."""
        self.unshown_when_made = False
        self.nameless = False
        """Instances have no private DNS name, as for an instant after they were made."""
        self.prefixes: Counter[str] = Counter()
        self.ending: dict[str, int] = {}
        """How many more lists show an instance as one that ends."""
        self.ends_after = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parameters: Parameters = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        action = parameters["Action"]
        self.counts[action] += 1
        self.requests.append(parameters)
        if refusals := self.errors.get(action):
            return _error(*refusals.pop(0))
        fault = faults.pop(0) if (faults := self.faults.get(action)) else None
        match fault:
            case Fault.THROTTLED:
                return _error("RequestLimitExceeded", "Request limit exceeded.", 503)
            case Fault.FAILED:
                return _error("InternalError", "An internal error has occurred", 500)
            case Fault.GARBLED:
                return web.Response(status=502, text="<html>Bad gateway</html>", content_type="text/html")
            case Fault.REORDERED:
                self._held.append(parameters)
                return self._cut(request)
        answer = await self._answered(parameters)
        if self.nameless and answer.text is not None:
            answer.text = re.sub("<([^/>]*privateDnsName)>[^<]*</", r"<\1></", answer.text)
        return await self._sent_back(request, parameters, answer, fault)

    async def _sent_back(
        self, request: web.Request, parameters: Parameters, answer: web.Response, fault: Fault | None
    ) -> web.StreamResponse:
        """An answer, and what happens to it on its way."""
        match fault:
            case Fault.LOST:
                return self._cut(request)
            case Fault.BROKEN_OFF:
                return await self._half(request, answer)
            case Fault.ANOTHERS:
                return web.Response(text="<html><body>Log in</body></html>", content_type="text/html")
            case Fault.LATE:
                await asyncio.sleep(1.5)
            case Fault.REPEATED:
                answer = await self._answered(parameters)
        while self._held:
            await self._answered(self._held.pop(0))
        return answer

    async def arrive(self) -> None:
        """What was given up arrives."""
        while self._held:
            await self._answered(self._held.pop(0))

    async def _answered(self, parameters: Parameters) -> web.Response:
        match parameters["Action"]:
            case "RunInstances":
                return await self._run(parameters)
            case "AssignIpv6Addresses" if count := parameters.get("Ipv6PrefixCount"):
                self.prefixes[parameters["NetworkInterfaceId"]] += int(count)
            case "TerminateInstances":
                instance = parameters["InstanceId.1"]
                if self._state(instance) == "terminated":
                    return web.Response(text=TERMINATED.format(instance), content_type="text/xml")
                if self.ends_after:
                    self.ending[instance] = self.ends_after
            case "DescribeInstances":
                return await self._describe(dict(parameters))
        return await self._forward(parameters)

    async def _run(self, parameters: Parameters) -> web.Response:
        token = parameters["ClientToken"]
        async with self._locks.setdefault(token, asyncio.Lock()):
            if token in self._runs:
                asked, instance, text = self._runs[token]
                if asked != parameters:
                    return _error(
                        "IdempotentParameterMismatch", "Arguments on this idempotent request are other ones"
                    )
                if self._state(instance) == "terminated":
                    return _error(
                        "IdempotentInstanceTerminated", "The instance of this token has been terminated"
                    )
                return web.Response(text=text, content_type="text/xml")
            answer = await self._forward(parameters)
            if answer.status == 200:
                assert answer.text is not None
                instance = answer.text.partition("<instanceId>")[2].partition("<")[0]
                self._runs[token] = (parameters, instance, answer.text)
                interfaces = answer.text.split("<networkInterfaceId>")[1:]
                tags = _tags_for("network-interface", parameters)
                kept().create_tags([each.partition("<")[0] for each in interfaces], tags)
                if self.unshown_when_made:
                    self.unshown.add(instance)
            return answer

    def _state(self, instance: str) -> str:
        every = (each for one in kept().reservations.values() for each in one.instances)
        return next((each.state for each in every if each.id == instance), "")

    async def _describe(self, parameters: Parameters) -> web.Response:
        for name in [name for name, value in parameters.items() if value == "client-token"]:
            values = name.removesuffix("Name") + "Value.1"
            _, made, _ = self._runs.get(parameters[values], ({}, "i-00000000", ""))
            parameters |= {name: "instance-id", values: made}
        answer = await self._forward(parameters)
        if answer.status != 200:
            return answer
        tree = ElementTree.fromstring(answer.text or "")
        assert tree.tag.startswith(f"{{{NAMESPACE}}}"), tree.tag
        for instances in tree.iter(_named("instancesSet")):
            for each in list(instances):
                if each.findtext(_named("instanceId")) in self.unshown:
                    instances.remove(each)
                else:
                    self._complete(each)
        return web.Response(text=ElementTree.tostring(tree, encoding="unicode"), content_type="text/xml")

    def _complete(self, instance: ElementTree.Element) -> None:
        check = instance.findtext(_named("sourceDestCheck"))
        identity = instance.findtext(_named("instanceId")) or ""
        if self.ending.get(identity, 0) > 0:
            self.ending[identity] -= 1
            state = instance.find(f"{_named('instanceState')}/{_named('name')}")
            assert state is not None
            state.text = "shutting-down"
        interfaces = instance.findall(f"{_named('networkInterfaceSet')}/{_named('item')}")
        for each in interfaces:
            if len(interfaces) == 1 and (found := each.find(_named("sourceDestCheck"))) is not None:
                found.text = check
            name = each.findtext(_named("networkInterfaceId")) or ""
            prefixes = ElementTree.SubElement(each, _named("ipv6PrefixSet"))
            for number in range(self.prefixes[name]):
                item = ElementTree.SubElement(prefixes, _named("item"))
                ElementTree.SubElement(item, _named("ipv6Prefix")).text = f"2001:db8:{number:x}::/80"

    async def _forward(self, parameters: Parameters) -> web.Response:
        headers = {
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
            "Host": f"ec2.{REGION}.amazonaws.com",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={ADMINISTRATOR}/20300101/{REGION}/ec2/aws4_request, "
            "SignedHeaders=host, Signature=0",
        }
        answer = moto().post("/", data=urlencode(parameters), headers=headers)
        return web.Response(status=answer.status_code, text=answer.text, content_type="text/xml")

    async def _half(self, request: web.Request, answer: web.Response) -> web.StreamResponse:
        text = (answer.text or "").encode()
        broken = web.StreamResponse(headers={"Content-Length": str(len(text)), "Content-Type": "text/xml"})
        await broken.prepare(request)
        await broken.write(text[: len(text) // 2])
        self._cut(request)
        return broken

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


@asynccontextmanager
async def serving() -> AsyncIterator[Ec2]:
    """A proxy that listens."""
    found = Ec2()
    application = web.Application()
    application.router.add_post("/", found.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


def _named(tag: str) -> str:
    return f"{{{NAMESPACE}}}{tag}"


def _tags_for(kind: str, parameters: Parameters) -> Mapping[str, str]:
    """The tags that a request wants on what it makes of this kind."""
    (number,) = [
        name.split(".")[1]
        for name, value in parameters.items()
        if name.startswith("TagSpecification.") and value == kind
    ]
    keys = [
        each for each in parameters if each.startswith(f"TagSpecification.{number}.Tag.") and "Key" in each
    ]
    return {parameters[each]: parameters[each.removesuffix("Key") + "Value"] for each in keys}


def _error(code: str, text: str, status: int = 400) -> web.Response:
    body = (
        f"<?xml version='1.0'?><Response><Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
        "<RequestID>r</RequestID></Response>"
    )
    return web.Response(status=status, text=body, content_type="text/xml")
