"""``kubewright rollout``: read the deployment, write the change, wait for its end, print.

Called by    ``cli.app``.
"""

import sys
from collections.abc import Callable
from datetime import timedelta

from kubewright.api.kinds import dynamic
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.asking import asked, require_namespace
from kubewright.cli.rollout import decide
from kubewright.cli.rollout.apis import MACHINES, Api, JsonObject, named
from kubewright.cli.rollout.decide import Change
from kubewright.cli.switches import Where
from kubewright.kube.client import Client
from kubewright.kube.patches import with_uid, with_version
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.goyaml import dumped
from kubewright.wire.gvk import Key

POLL_SECONDS = 1.0
"""Between two reads of the deployment while ``rollout status`` waits."""


class Deployment:
    """One deployment on a server.

    Raises:
        InvalidInput: the text names no deployment.
    """

    def __init__(self, text: str, namespace: str) -> None:
        self.api, name = named(text)
        self.key = Key(namespace, name)

    def __str__(self) -> str:
        return f"{self.api.kind}/{self.key.name}"

    async def read(self, client: Client) -> JsonObject:
        """The object as it is now.

        Raises:
            InvalidInput: there is none.
            ApiError, TransportError: the server refused, or did not answer.
        """
        try:
            return await client.get(self.api.deployment, self.key)
        except NotFound:
            await require_namespace(client, self.key.namespace)
            raise InvalidInput(f"there is no {self} in namespace {self.key.namespace}") from None

    async def sets(self, client: Client) -> list[JsonObject]:
        """The sets of its namespace. Raises as ``read``, but for a deployment that does not exist."""
        return await client.list(self.api.set, self.key.namespace)


Decide = Callable[[Api, JsonObject, list[JsonObject]], Change]


def change(where: Where, deployment: Deployment, wanted: Decide) -> None:
    """As ``changed``, on the server of a kubeconfig; print what was done."""
    done = asked(where, lambda client: changed(client, deployment, wanted))
    print(f"{deployment} {done.said}")


async def changed(client: Client, deployment: Deployment, wanted: Decide) -> Change:
    """Write what is decided, if the deployment is still the one that was read.

    Raises:
        InvalidInput: there is no such deployment, or it cannot be changed so.
        ApiError, TransportError: the server refused, or did not answer.
    """
    found = await deployment.read(client)
    try:
        decided = wanted(deployment.api, found, await deployment.sets(client))
    except InvalidInput as error:
        raise InvalidInput(f"{deployment}: {error}") from None
    if decided.patch:
        meta = found["metadata"]
        body = with_version(with_uid(decided.patch, meta["uid"]), meta["resourceVersion"])
        await client.patch(deployment.api.deployment, deployment.key, body)
    return decided


def history(where: Where, deployment: Deployment, number: int) -> None:
    """Print the revisions of a deployment, or the template of one of them (``number`` not 0).

    Raises:
        InvalidInput: there is no such deployment or revision.
        ApiError, TransportError: the server refused, or did not answer.
    """

    async def ask(client: Client) -> tuple[JsonObject, list[JsonObject]]:
        return await deployment.read(client), await deployment.sets(client)

    revisions = decide.history(deployment.api, *asked(where, ask))
    if not number:
        print("\n".join(decide.table(revisions)))
        return
    try:
        template = decide.template_of(deployment.api, revisions, number)
    except InvalidInput as error:
        raise InvalidInput(f"{deployment}: {error}") from None
    print(dumped(template), end="")


def status(where: Where, deployment: Deployment, timeout: timedelta) -> bool:
    """Print how far the rollout is, until it has ended; return whether it ended well.

    Args:
        where: the server is.
        deployment: whose rollout.
        timeout: how long to wait for the end; 0: only say how it is now.

    Raises:
        InvalidInput: there is no such deployment, or it is deleted meanwhile.
        ApiError, TransportError: the server refused, or did not answer.
    """
    return asked(where, lambda client: follow(client, SystemClock(), deployment, timeout.total_seconds()))


async def _not_applied(client: Client, deployment: Deployment) -> list[str]:
    """What its class says, and its machines will have only when they are replaced. A user who may not read
    classes, or whose kind of deployment has none, is told nothing."""
    if deployment.api.kind != MACHINES.kind:
        return []
    found = await deployment.read(client)
    name = decide.class_name(found)
    try:
        there = await client.get(dynamic(MACHINE_CLASS.resource), Key(deployment.key.namespace, name))
    except ApiError:
        return []
    return decide.would_roll(found, name, there)


async def follow(client: Client, clock: Clock, deployment: Deployment, seconds: float) -> bool:
    """As ``status``, with a client and a clock."""
    end, told = clock.monotonic() + seconds, ""
    while True:
        found = decide.progress(await deployment.read(client))
        if found.said != told:
            print(f"{deployment} {found.said}", flush=True)
            told = found.said
        if found.done or found.failed:
            for each in await _not_applied(client, deployment):
                print(each, file=sys.stderr)
            return found.done
        if clock.monotonic() >= end:
            if seconds:
                print(f"{deployment} was not rolled out in {seconds:g} s", file=sys.stderr)
            return False
        await clock.sleep(min(POLL_SECONDS, max(0.0, end - clock.monotonic())))
