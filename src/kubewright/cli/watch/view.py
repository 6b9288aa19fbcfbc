"""The machines of a namespace as the demo's stage shows them, and an event as one of its lines.

Theory.      Machines of both APIs are in one table, and only their nodes are counted. The nodes of machines
             of ``machine.sapcloud.io`` are read. Those of a Cluster are in its own API server, which is not
             asked: a machine of Cluster API with a ``nodeRef`` counts as a node, and as a ready one while it
             is Running.
Called by    ``command``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.cluster.v1beta1 import Machine as ClusterMachine
from kubewright.api.core import Event, Node
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.cli.demo import clusters as of_clusters
from kubewright.cli.demo import machines as of_machines
from kubewright.cli.demo.view import RUNNING, View, Words
from kubewright.driver.answers import printable

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
