"""``kubewright explain``: read the objects and the manager's records, make stories of them, print these.

Called by    ``cli.app``.
"""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import msgspec
from msgspec import structs

from kubewright.api.core import NODE
from kubewright.api.machine.v1alpha1 import MACHINE
from kubewright.base.clock import SystemClock
from kubewright.cli.asking import asked, refuse_unknown
from kubewright.cli.explain import dry_run, reading
from kubewright.cli.explain import story as telling
from kubewright.cli.explain.dry_run import DryRun
from kubewright.cli.explain.reading import Managed
from kubewright.cli.explain.story import Facts, JsonObject, Story, tell
from kubewright.cli.explain.subjects import Subject, named
from kubewright.cli.switches import Where
from kubewright.compose import worlds
from kubewright.compose.options import Options
from kubewright.driver.answers import printable
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.runtime.records import Pass
from kubewright.wire.gvk import Key

NOT_ASKED = "what is decided here is by the default switches; --manager URL asks the manager that decides"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for. ``manager``: its health port; empty: ask the API server.

    ``target``: the kubeconfig of the cluster that machines join; None: the server that has the machines.
    """

    text: str
    name: str = ""
    namespace: str = "default"
    manager: str = ""
    target: Path | None = None


@cache
def subjects() -> tuple[Subject, ...]:
    """All that can be explained: the kinds of the program's worlds, and Node."""
    found = [
        Subject(kind, tuple(each.name for each in world.controllers if each.kind == kind.resource.kind))
        for world in worlds.shown(Options())
        for kind in world.kinds
    ]
    node = tuple(each.name for each in worlds.listed(Options()) if each.kind == NODE.resource.kind)
    return (*found, Subject(NODE, node))


def explain(where: Where, what: Asked, output: str) -> None:
    """Print why an object is as it is.

    Raises:
        InvalidInput: there is no such kind or object, no such form of output, or no manager at the address.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    stories = asked(where, lambda client: told(client, what))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(stories), indent=2).decode())
        return
    show(stories, SystemClock().now())


def show(stories: list[Story], now: datetime) -> None:
    """Print stories, with an empty line between two."""
    print_lines([each for story in stories for each in (*telling.lines(story, now), telling.Line(""))][:-1])


def print_lines(lines: Sequence[telling.Line]) -> None:
    """Print lines: with colours and no wider than it on a terminal, plain and whole in a pipe."""
    lines = [replace(each, text=printable(each.text)) for each in lines]
    if not sys.stdout.isatty():
        print("\n".join(each.text for each in lines))
        return
    from rich.console import Console  # only a terminal has to wait for it
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for line in lines:
        console.print(Text(line.wrapped(console.width), style=line.colour), soft_wrap=True)


async def told(client: Client, what: Asked) -> list[Story]:
    """The stories of all objects that the user may mean; after that of a Node, the one of its machine.

    Raises:
        as ``explain``.
    """
    kinds, name = named(subjects(), what.text, what.name)
    async with AsyncExitStack() as stack:
        target = client
        if what.target is not None:
            transport = config.load(what.target, clock=client.clock)
            target = Client(transport, client.clock, name=transport.access.server)
            stack.push_async_callback(target.close)
        nodes = all(each.kind == NODE for each in kinds)
        found = await reading.objects(target if nodes else client, kinds, Key(what.namespace, name))
        machine = await _machine_of(client, found[0][1], what.namespace) if nodes else None
        found += [machine] if machine is not None else []
        stories = [await _story(client, target, what, subject, each) for subject, each in found]
        if machine is not None:
            own = f"machine {stories[1].name}"
            stories[0] = structs.replace(stories[0], belongs_to=(*stories[0].belongs_to, own))
        return stories


async def _machine_of(client: Client, node: JsonObject, namespace: str) -> tuple[Subject, JsonObject] | None:
    found = await reading.machine_of_node(client, node, namespace)
    if found is None:
        return None
    subject = next(each for each in subjects() if each.kind == found[0])
    return (await reading.objects(client, [subject], Key(namespace, found[1])))[0]


async def _story(client: Client, target: Client, what: Asked, subject: Subject, found: JsonObject) -> Story:
    provider = await reading.provider_of(client, subject, found)
    query = {"name": found["metadata"]["name"], **({} if provider is None else {"provider": provider})}
    managed = await reading.ask(client, what.manager, **query)
    passes = reading.records(managed, subject, found)
    here = await _dry_run(client, target, subject, found, passes)
    events, refused = await reading.events(target if subject.kind == NODE else client, found)
    notes = [
        *_of_manager(managed, subject, passes),
        *here.notes,
        *([f"events: {refused}"] if refused else []),
    ]
    facts = Facts(
        subject,
        found,
        passes=passes,
        decided=() if passes else here.decided,
        expected=here.expected,
        members=await reading.members(client, subject, found),
        driver=managed.answer.driver if managed.answer is not None else "",
        notes=notes,
        events=events,
    )
    return tell(facts)


async def _dry_run(
    client: Client, target: Client, subject: Subject, found: JsonObject, passes: Sequence[Pass]
) -> DryRun:
    """What its controller would decide; empty for kinds whose deciders need more than a server shows.

    Where the manager has a record (``passes``) only what comes next is asked for, and only of machines.
    """
    key = Key(found["metadata"].get("namespace", ""), found["metadata"]["name"])
    if subject.kind == MACHINE:
        return await dry_run.machine(
            client, target, key, _until_next(passes[0].next, client) if passes else None
        )
    decider = None if passes else dry_run.DECIDERS.get(subject.kind)
    return await decider(client, key) if decider is not None else DryRun()


def _until_next(at: datetime | None, client: Client) -> timedelta:
    """How long it is until the manager looks again; zero where only a change makes it look."""
    return timedelta() if at is None else at - client.clock.now()


def _of_manager(managed: Managed, subject: Subject, passes: Sequence[Pass]) -> list[str]:
    """Notes on what the manager did not say."""
    if managed.answer is None:
        return [f"{managed.problem}; {NOT_ASKED}"]
    if passes or subject.kind == NODE:  # its machine's controllers decide
        return []
    waits = [f"{lease}, which {holder or 'no process'} holds" for lease, holder in managed.answer.waits_for]
    why = f": it stands by for {'; '.join(waits)}" if waits else ""
    return [f"the manager has no record of it{why}"]
