"""``kubewright cluster describe`` and ``kubeconfig``: read, and print.

Called by    ``cli.app``.
"""

import sys

import msgspec

from kubewright.base.clock import SystemClock
from kubewright.cli.asking import asked, refuse_unknown
from kubewright.cli.cluster import page, reading
from kubewright.cli.cluster.tree import tree
from kubewright.cli.switches import Where
from kubewright.wire.gvk import Key


def describe(where: Where, key: Key, output: str) -> None:
    """Print the tree of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or no such form of output.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    found = tree(asked(where, lambda client: reading.read(client, key)))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    lines = list(page.lines(found, SystemClock().now()))
    if not sys.stdout.isatty():
        print("\n".join(page.text(lines)))
        return
    from rich.console import Console  # only a terminal has to wait for it
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for line, text in zip(lines, page.text(lines, console.width), strict=True):
        console.print(Text(text, style=line.colour), soft_wrap=True)


def kubeconfig_of(where: Where, key: Key) -> None:
    """Print the kubeconfig of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or it has none.
        ApiError, TransportError: the server refused, or did not answer.
    """
    sys.stdout.write(asked(where, lambda client: reading.kubeconfig(client, key)).decode())
