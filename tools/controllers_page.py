"""List every controller of the program: docs/reference/controllers.md, from ``compose.worlds``.

Called by    ``gen``.
"""

from collections.abc import Iterator, Mapping, Sequence

from kubewright.compose.embedded import server_worlds
from kubewright.compose.options import Options
from kubewright.compose.worlds import shown
from kubewright.runtime.world import World

HEAD = """# The controllers

Generated from `src/kubewright/compose/worlds.py` by `make gen`. A controller has one name, in
`--controllers`, in metrics and in the log. Controllers with the same Lease are elected together.
"""
EVERYWHERE = """
## In `kubewright run` and `kubewright up`

`--controllers` chooses among these. `kubewright up` runs all of them. `kubewright run` runs those of
`machines`; the name of another group adds its controllers, as in `--controllers '*,clusters'`.
"""
IN_THE_SERVER = """
## In `kubewright up` alone

On any other Kubernetes, the kube-controller-manager and the kube-scheduler do this work.
"""


def files() -> Mapping[str, str]:
    """The page, by its name."""
    options = Options()
    lines = [
        *HEAD.splitlines(),
        *EVERYWHERE.splitlines(),
        *(line for world in shown(options) for line in ("", f"### {world.name}", "", *table([world]))),
        *IN_THE_SERVER.splitlines(),
        "",
        *table(server_worlds(options)),
    ]
    return {"controllers.md": "\n".join(lines) + "\n"}


def table(worlds: Sequence[World]) -> Iterator[str]:
    """A row for each controller, in the order in which they are started."""
    yield "| controller | works on | Lease | what it does |"
    yield "|---|---|---|---|"
    for world in worlds:
        for each in world.controllers:
            kind = "every kind" if each.kind == "*" else each.kind
            yield f"| `{each.name}` | {kind} | {each.lease and f'`{each.lease}`'} | {each.does} |"
