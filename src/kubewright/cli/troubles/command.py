"""``kubewright status -n NAMESPACE``: read everything of a namespace, and print what is in trouble.

Invariants.  Only reads. A kind that the server does not serve has no objects; one that the user may not list
             becomes a note in the words of the server, which name the verb and the resource.
Called by    ``cli.app``.
"""

import msgspec

from kubewright.api.core import EVENT, NODE
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.cli.asking import asked, refuse_unknown, require_namespace
from kubewright.cli.explain import reading
from kubewright.cli.explain.command import print_lines, subjects
from kubewright.cli.explain.story import Facts, JsonObject, Story, tell
from kubewright.cli.explain.subjects import Subject
from kubewright.cli.switches import Where
from kubewright.cli.troubles import page
from kubewright.cli.troubles.decide import Troubles, troubles, waits, warnings
from kubewright.kube.client import Client
from kubewright.wire.errors import Forbidden, NotFound


def status(where: Where, namespace: str, manager: str, output: str) -> int:
    """Print the troubles of a namespace, empty for all; return 1 if there are any or not all could be read.

    Raises:
        InvalidInput: there is no such form of output, or no manager at the address.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    found = asked(where, lambda client: looked(client, namespace, manager))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print_lines(list(page.lines(found, SystemClock().now())))
    return 1 if found.troubles or found.notes else 0


async def looked(client: Client, namespace: str, manager: str = "") -> Troubles:
    """The troubles of a namespace. Raises as ``status``; InvalidInput if it does not exist."""
    if namespace:
        await require_namespace(client, namespace)
    managed = await reading.ask(client, manager, **({"namespace": namespace} if namespace else {}))
    stories: list[Story] = []
    notes: list[str] = []
    for subject in subjects():
        if subject.kind == NODE:  # the story of its machine says what is wrong with it
            continue
        for each in await _listed(client, subject, namespace, notes):
            stories.append(tell(Facts(subject, each, reading.records(managed, subject, each))))
    found = troubles(stories)
    try:
        events = await client.list(EVENT, namespace)
    except Forbidden as error:
        events = []
        notes.append(error.message)
    return Troubles(
        namespace=namespace,
        looked_at=len(stories),
        troubles=tuple(found),
        waits=tuple(waits(managed.answer.passes if managed.answer else (), client.clock.now())),
        warnings=tuple(warnings(events, found, client.clock.now())),
        notes=tuple(notes),
    )


async def _listed(client: Client, subject: Subject, namespace: str, notes: list[str]) -> list[JsonObject]:
    try:
        listed = await client.list(dynamic(subject.kind.resource), namespace)
    except NotFound:
        return []
    except Forbidden as error:
        notes.append(error.message)
        return []
    return list(listed)
