"""A world: the controllers of one API, and what the program needs to know in order to run them.

Theory.      The program is a list of worlds (``compose.worlds``), and each world is a value: which kinds it
             has, which controllers, under which Lease each of them works, and a function that makes them.
             The composition root asks nothing else of a world, so adding one is adding an entry to a list.
Invariants.  ``wire`` makes new controllers each time it is called, once in each term of leadership, and they
             remember nothing of an earlier one. It makes those that it is asked for and no others, and
             starts nothing: background tasks are run by the group that the controllers belong to.
Called by    contexts, which make worlds; ``compose``, which lists and runs them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.kube.transport import Entitled
from kubewright.runtime.controller import Admits, Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.runtime.manager import Runnable
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Lookup, Session


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """A controller in the list of all.

    ``name``   as in ``--controllers``, in metrics and in the log
    ``kind``   the kind of the objects that its keys name; ``*`` for every kind
    ``lease``  the default name of the Lease that it works under, together with all others of that Lease;
               empty: it needs none, since only one process runs it
    ``does``   what it does, in one clause
    ``follows``  the name of another controller under the same Lease: unless ``--controllers`` names this one
               itself, it runs where that one runs. So the Lease is left to another program as a whole
    """

    name: str
    kind: str
    lease: str
    does: str
    follows: str = ""


def _none() -> Workloads:
    """What ``Environment.workloads`` is where no world of a program ``reaches_workloads``."""
    raise LookupError("this program has no sessions with workload clusters")


@dataclass(frozen=True, slots=True)
class Environment:
    """What controllers are wired to, for one term.

    ``control``   the cluster that has the objects of the world
    ``targets``   finds the clusters that nodes join
    ``entitled``  whether this process may write now; the clients of these clusters ask it already
    ``admits``    whether this program works on objects with these labels
    ``shard``     the part of the objects of a world with ``shards`` that this process works on
    ``workloads`` answers the lookup of clusters that come and go, the same one for all worlds of the term;
                  the term runs it if it was asked for
    """

    control: Session
    targets: Lookup
    entitled: Entitled
    recorder: Recorder
    clock: Clock
    metrics: Metrics
    admits: Admits = lambda labels: True
    shard: Shard = WHOLE
    workloads: Callable[[], Workloads] = _none


@dataclass(frozen=True, slots=True)
class Runnables:
    """Controllers that listen but do not work yet, and the tasks to run beside them."""

    controllers: Sequence[Controller]
    background: Sequence[Runnable] = ()


@dataclass(frozen=True, slots=True)
class World:
    """One API and its controllers.

    ``name``         as help shows it; in ``--controllers`` it means all controllers of the world
    ``kinds``        the kinds of its own API
    ``event_kinds``  kinds of other APIs that its events may be about
    ``controllers``  all of them, in the order in which they are shown and started
    ``wire``         makes those of its controllers whose names it gets, at least one
    ``definitions``  the CustomResourceDefinitions of its kinds, for a server that has none yet
    ``reads``        names of other worlds whose kinds its controllers cannot work without
    ``on_request``   its controllers run only where they are named, since not every server has its kinds
    ``filter_label``  the label by whose value programs divide its objects; empty: they cannot be divided so
    ``shards``       processes may divide its objects by their uids
    ``reaches_workloads``  its controllers may ask for ``Environment.workloads``
    """

    name: str
    controllers: Sequence[ControllerInfo]
    wire: Callable[[Environment, Sequence[str]], Runnables]
    kinds: Sequence[Kind[Any]] = ()
    event_kinds: Sequence[Kind[Any]] = ()
    definitions: Callable[[], Iterable[Mapping[str, Any]]] = tuple
    reads: Sequence[str] = ()
    on_request: bool = False
    filter_label: str = ""
    shards: bool = False
    reaches_workloads: bool = False
