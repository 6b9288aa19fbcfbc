"""``kubewright watch``: informers of machines, nodes and events, shown a few times a second.

Invariants.  Only reads. A kind that the server does not serve has no objects; where neither API of machines
             can be listed, the command ends with the server's words, which name the verb and the resource.
Called by    ``cli.app``.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.cluster.v1beta1 import MACHINE as CLUSTER_MACHINE
from kubewright.api.cluster.v1beta1 import Machine as ClusterMachine
from kubewright.api.core import EVENT, LEASE, NODE, Event, Node
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput, single
from kubewright.cli.asking import connected, require_namespace
from kubewright.cli.demo import clusters as of_clusters
from kubewright.cli.demo import machines as of_machines
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.view import RUNNING, View, Words
from kubewright.cli.switches import Where, run_until_signal
from kubewright.driver.answers import printable
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.kube.scope import Namespaces

WORDS = Words(
    "",
    "class or version",
    {**of_clusters.WORDS.states, **of_machines.WORDS.states},
    of_clusters.WORDS.cluster,
)


def view_of(
    machines: Sequence[Machine],
    members: Sequence[ClusterMachine],
    clusters: Sequence[Cluster],
    nodes: Iterable[Node],
) -> View:
    """The table and its counts; ``machines`` are of ``machine.sapcloud.io``, ``members`` of Cluster API."""
    first = of_machines.view(machines, (), 0)
    own = {row.node for row in first.rows if row.node}
    first = of_machines.view(machines, [each for each in nodes if each.name in own], 0)
    second = of_clusters.view(members, clusters if len(clusters) == 1 else (), (), 0)
    taken = {row.name for row in first.rows}
    rows = [replace(row, name=f"{row.name} (cluster)") if row.name in taken else row for row in second.rows]
    joined = [row for row in rows if row.node]
    made = sum(1 for each in machines if each.spec.provider_id)
    made += sum(1 for each in members if each.spec.provider_id)
    return View(
        tuple(sorted((*first.rows, *rows), key=lambda row: row.name)),
        first.ready_nodes + sum(1 for row in joined if row.state == RUNNING),
        first.nodes + len(joined),
        made,
        second.cluster,
    )


def line(event: Event) -> str:
    """An event, as a sentence."""
    about = event.involved_object
    times = f" ({event.count} times)" if event.count > 1 else ""
    return f"{about.kind.lower()} {about.name}: {event.reason}: {printable(event.message)}{times}"


REDRAW_SECONDS = 0.5
"""Between two drawings of the table."""

ANSWER_SECONDS = 10.0
"""How long the first lists may take."""

BACKLOG = 200
"""At most so many events are shown between two drawings: the last ones."""

EARLIER_EVENTS = 5
"""How many events from before the start are shown."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a user asks for. ``target``: the kubeconfig of the cluster that machines join; None: the same.

    ``limit``: for how long; zero: until Ctrl-C.
    """

    namespace: str
    target: Path | None = None
    limit: timedelta = timedelta()


def watch(where: Where, what: Watched) -> None:
    """Show the machines of a namespace while they change.

    Raises:
        InvalidInput: a kubeconfig cannot be used, there is no such namespace, or no machines can be listed.
    """

    async def work(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            control = connected(where, clock)
            stack.push_async_callback(control.close)
            target = control
            if what.target is not None:
                target = connected(Where(what.target), clock)
                stack.push_async_callback(target.close)
            await require_namespace(control, what.namespace)
            await follow(control, target, what, stop, Stage(WORDS, 0))

    run_until_signal(work)


async def follow(control: Client, target: Client, what: Watched, stop: asyncio.Event, stage: Stage) -> None:
    """As ``watch``, with clients, until ``stop`` is set."""
    feed = Feed(control, target, what.namespace)
    try:
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(each.run()) for each in dict.fromkeys((feed.informers, feed.of_nodes))
            ]
            await feed.wait_until_listed()
            await _show(control, feed, what, stop, stage)
            for task in running:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise single(errors) from None


async def _show(control: Client, feed: "Feed", what: Watched, stop: asyncio.Event, stage: Stage) -> None:
    clock = control.clock
    began = clock.monotonic()
    limit = what.limit.total_seconds() or float("inf")
    with stage:
        while not stop.is_set() and (took := clock.monotonic() - began) < limit:
            for each in feed.happened():
                stage.tell(took, line(each))
            stage.show(feed.view(), took)
            await clock.sleep(REDRAW_SECONDS)


@dataclass(slots=True)
class Feed:
    """The informers, and the events that were not shown yet."""

    control: Client
    target: Client
    namespace: str
    informers: Informers = field(init=False)
    of_nodes: Informers = field(init=False)
    _new: deque[Event] = field(default_factory=lambda: deque(maxlen=BACKLOG))

    def __post_init__(self) -> None:
        """Declare what is watched."""
        self.informers = Informers(self.control, only=Namespaces((self.namespace,)))
        self.of_nodes = self.informers if self.target is self.control else Informers(self.target)
        self.informers.get(MACHINE)
        self.informers.get(CLUSTER_MACHINE)
        self.informers.get(CLUSTER)
        self.of_nodes.get(NODE, namespace="")
        self.informers.get(EVENT).subscribe(self._event)

    async def wait_until_listed(self) -> None:
        """Wait until each kind is listed, or is known to be unreadable.

        Raises:
            InvalidInput: no API of machines can be listed.
        """
        clock = self.control.clock
        deadline = clock.monotonic() + ANSWER_SECONDS
        machines = self._all()[:2]
        while any(not each.synced and not each.statistics().trouble for each in self._all()):
            if clock.monotonic() >= deadline:
                break
            await clock.sleep(REDRAW_SECONDS / 10)
        if not any(each.synced for each in machines):
            trouble = machines[0].statistics().trouble or f"no answer within {ANSWER_SECONDS:g} s"
            raise InvalidInput(f"{self.control.name}: {trouble}")
        self._keep_last_events()

    def view(self) -> View:
        """The table as the caches have it now."""
        return view_of(
            self.informers.existing(MACHINE).list(),
            self.informers.existing(CLUSTER_MACHINE).list(),
            self.informers.existing(CLUSTER).list(),
            self.of_nodes.existing(NODE).list(),
        )

    def happened(self) -> list[Event]:
        """The events since the last call."""
        found = list(self._new)
        self._new.clear()
        return found

    def _all(self) -> list[Informer[Any]]:
        """All informers; the first two are those of machines."""
        mine = self.informers
        return [
            mine.existing(MACHINE),
            mine.existing(CLUSTER_MACHINE),
            mine.existing(CLUSTER),
            mine.existing(EVENT),
            self.of_nodes.existing(NODE),
        ]

    def _keep_last_events(self) -> None:
        """Of the events that the first list brought, keep the last few."""
        before = sorted(self._new, key=_moment)
        self._new.clear()
        self._new.extend(before[-EARLIER_EVENTS:])

    def _event(self, change: Change[Event]) -> None:
        if (event := change.after()) is not None and event.involved_object.kind != LEASE.resource.kind:
            self._new.append(event)


def _moment(event: Event) -> float:
    at = event.last_timestamp or event.metadata.creation_timestamp
    return at.timestamp() if at is not None else 0.0
