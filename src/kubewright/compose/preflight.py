"""Checks the clusters before the controllers start: a problem is one sentence that says what to do.

Theory.      A dozen watches that fail for one reason would log a dozen errors without its cause. So before
             the first watch the program sends each cluster up to three small requests: which version it
             is, whether it serves our kinds, whether we may read them. A problem that time can mend (a
             server that is down, missing CRDs or roles) is logged once, and the program waits. A problem
             that only a user can mend (credentials, a certificate, an address) ends the process.
             Where a server has the kinds of worlds whose controllers are not chosen, one line says which: to
             have installed everything and to run a part of it is more often an oversight than a division.
             The check also keeps simulated nodes out of real clusters: an embedded server says in its
             ``/version`` that it is one. Only the operator of a server decides what it says there, so a
             false answer could bring simulated nodes to that operator's own cluster only.
Invariants.  Nothing is written. Each request has a deadline; each wait ends when the program is told to stop.
Called by    ``on_kubernetes``.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import structlog

from kubewright.api.core import NODE
from kubewright.api.kinds import Kind
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.compose.options import program
from kubewright.kube.client import Client
from kubewright.kube.errors import BadAnswer, LoginFailed, TransportError, Unresolved, Untrusted, failure
from kubewright.wire import release
from kubewright.wire.errors import ApiError, Forbidden, NotFound, Unauthorized

ANSWER_SECONDS = 10.0
"""How long a server may take to answer one of these requests."""

AGAIN_SECONDS = 5.0
"""From one check to the next, while the program waits."""

_QUESTION = re.compile(r"^[A-Z]+ /\S*: ")
"""The request in front of an error message (``GET /version: ``), which is cut off."""

log = structlog.get_logger("kubewright.compose")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A cluster: a client of it, its address, and the switch that names its kubeconfig."""

    client: Client
    url: str
    switch: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong, and what to do about it. ``passes``: waiting may help."""

    sentence: str
    passes: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What the controllers are about to do in the clusters.

    ``kinds``      the kinds that the control cluster must serve; we must be able to read the first of them
    ``namespace``  one in which there may be machines; empty for everywhere
    ``machines``   whether the controllers of machines run, which alone need the target cluster
    ``simulated``  whether the VMs are simulated; ``allowed``: even on a server that is not ``kubewright up``
    ``elects``     whether a leader is elected
    ``idle``       the kinds of the worlds whose controllers do not run, by the word that chooses them
    ``chosen``     the words for ``--controllers`` that chose those that run
    """

    kinds: Sequence[Kind[Any]]
    namespace: str = ""
    machines: bool = True
    simulated: bool = False
    allowed: bool = False
    elects: bool = True
    idle: Mapping[str, Sequence[Kind[Any]]] = field(default_factory=dict)
    chosen: Sequence[str] = ("*",)


class Preflight:
    """Checks until all is well. ``trouble`` is the problem that it waits for; empty when there is none."""

    def __init__(self, control: Endpoint, target: Endpoint, intent: Intent) -> None:
        self.trouble = ""
        apart = intent.machines and target.client is not control.client
        self._endpoints = (control, target) if apart else (control,)
        self._intent = intent

    async def passed(self, stop: asyncio.Event) -> bool:
        """Wait until all is well; False when ``stop`` was set before that.

        Raises:
            InvalidInput: something is wrong that only a user can mend.
        """
        logged = ""
        while not stop.is_set():
            trouble = await self._check()
            if trouble is None:
                if logged:
                    log.info("what was missing is there")
                self.trouble = ""
                return True
            if not trouble.passes:
                raise InvalidInput(trouble.sentence)
            self.trouble, alike = trouble.sentence, re.sub(r"\d+", "", trouble.sentence)
            if alike != logged:
                logged = alike
                log.warning(f"{trouble.sentence}. Waiting for it")
            await _pause(stop)
        return False

    async def _check(self) -> Trouble | None:
        ours = []
        for endpoint in self._endpoints:
            try:
                ours.append(await self._ask(endpoint))
            except (ApiError, TransportError) as error:
                return trouble_of(error, endpoint.url, endpoint.switch)
        trouble = self._likely_mistake(ours)
        if trouble is None and not ours[0]:
            await self._mention_idle()
        return trouble

    async def _mention_idle(self) -> None:
        """Say which worlds the control cluster has that do not run here. A server that does not tell is one
        that has none of them."""
        control, intent = self._endpoints[0], self._intent
        found = []
        for name, kinds in intent.idle.items():
            with suppress(ApiError, TransportError):
                await _serves(control.client, kinds)
                found.append(name)
        if found:
            words = ",".join((*intent.chosen, *found))
            there = f"{control.url} has the kinds of {', '.join(found)}, and nothing here works on them"
            log.warning(f"{there}; unless another program does, start with --controllers '{words}'")

    async def _ask(self, endpoint: Endpoint) -> bool:
        """Whether this server is a ``kubewright up``; raises the error of a request that fails."""
        ours = release.is_ours(await _version(endpoint.client))
        intent = self._intent
        if endpoint is self._endpoints[0]:
            await _serves(endpoint.client, intent.kinds)
            await _answer(endpoint.client, intent.kinds[0].resource.path(intent.namespace), limit="1")
        if intent.machines and endpoint is self._endpoints[-1]:
            await _answer(endpoint.client, NODE.resource.path(), limit="1")
        return ours

    def _likely_mistake(self, ours: list[bool]) -> Trouble | None:
        """A combination that is most likely a mistake, such as simulated nodes in a real cluster."""
        intent = self._intent
        real = next(
            (endpoint.url for endpoint, mine in zip(self._endpoints, ours, strict=True) if not mine), ""
        )
        if intent.simulated and real and not intent.allowed:
            said = (
                f"--driver sim would put nodes that do not exist into {real}, which is not kubewright up; "
                "name your cloud's driver, or say --allow-simulated-nodes if that is what you want"
            )
            return Trouble(said, passes=False)
        if not ours[0]:
            return None
        url = self._endpoints[0].url
        if not intent.elects:
            said = f"{url} is kubewright up, whose own controllers work there; leave --no-leader-elect out"
            return Trouble(said, passes=False)
        log.warning(f"{url} is kubewright up; where it runs these controllers itself, ours stand by")
        return None


def trouble_of(error: KubewrightError, url: str, switch: str) -> Trouble:
    """An error as a sentence: what it means, and what to do about it. Pure."""
    passing, lasting = partial(Trouble, passes=True), partial(Trouble, passes=False)
    why, other = _QUESTION.sub("", str(error)), f"{switch} names a kubeconfig"
    match error:
        case Unauthorized():
            refused = f"{url} does not accept our credentials (401 Unauthorized)"
            return lasting(f"{refused}; renew those in the kubeconfig, or name another one with {switch}")
        case LoginFailed():
            return lasting(f"there are no credentials for {url}: {why}")
        case Untrusted():
            trust = "is its certificate-authority-data that of this server, and is our clock right?"
            return lasting(f"{url} does not prove to be the server that we mean: {why}; {trust}")
        case BadAnswer():
            strange = f"{url} does not answer as a Kubernetes API server does ({why})"
            return lasting(f"{strange}; is it the right address? {other}")
        case Forbidden():
            return passing(
                f"{url} does not let us work: {why}; grant the roles: kubectl apply -f deploy/rbac"
            )
        case NotFound():
            install = f"{program()} crds | kubectl apply -f -"
            return passing(f"{url} does not serve {why}; install its CRDs: {install}")
        case Unresolved():
            return passing(f"the name of {url} is not known here: {why}")
        case TransportError():
            away = f"{url} cannot be reached: {why}"
            return passing(f"{away}; is it running, and is this its address? {other}")
    return passing(f"{url} is not ready: {error}")


async def _answer(client: Client, path: str, **query: str) -> bytes:
    request = client.request("GET", path, query=tuple(query.items()))
    response = await client.transport.request(request, timeout=ANSWER_SECONDS)
    if response.status >= 400:
        raise failure(response)
    return response.body


async def _serves(client: Client, kinds: Sequence[Kind[Any]]) -> None:
    """Raise NotFound, with the name of the group, unless the server serves all of these kinds."""
    for version, group in dict.fromkeys((kind.resource.api_version, kind.resource.group) for kind in kinds):
        try:
            listed = _decoded(await _answer(client, f"/apis/{version}"))
        except NotFound:
            raise NotFound(group) from None
        served = {each.get("name") for each in listed.get("resources") or () if isinstance(each, dict)}
        if {kind.resource.plural for kind in kinds if kind.resource.api_version == version} - served:
            raise NotFound(group)


async def _version(client: Client) -> str:
    try:
        found = _decoded(await _answer(client, "/version")).get("gitVersion")
    except NotFound:
        found = ""
    if not found:
        raise BadAnswer("it has no /version")
    return str(found)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise BadAnswer("its answer is not JSON") from None
    if not isinstance(found, dict):
        raise BadAnswer("its answer is JSON, and not an object")
    return found


async def _pause(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(AGAIN_SECONDS):
            await stop.wait()
    except TimeoutError:
        pass
