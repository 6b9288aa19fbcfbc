"""``kubewright cluster describe`` and ``kubeconfig``: read, and print.

Called by    ``cli.app``.
"""

import sys
from pathlib import Path

import msgspec

from kubewright.base.clock import SystemClock
from kubewright.cli.asking import asked, refuse_unknown
from kubewright.cli.cluster import page, reading
from kubewright.cli.cluster.tree import tree
from kubewright.wire.gvk import Key


def describe(kubeconfig: Path | None, key: Key, output: str) -> None:
    """Print the tree of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or no such form of output.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    found = tree(asked(kubeconfig, lambda client: reading.read(client, key)))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    lines = list(page.lines(found, SystemClock().now()))
    texts = page.text(lines)
    if not sys.stdout.isatty():
        print("\n".join(texts))
        return
    from rich.console import Console  # only a terminal has to wait for it
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for line, text in zip(lines, texts, strict=True):
        console.print(Text(text, style=line.colour), soft_wrap=True)


def kubeconfig_of(kubeconfig: Path | None, key: Key) -> None:
    """Print the kubeconfig of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or it has none.
        ApiError, TransportError: the server refused, or did not answer.
    """
    sys.stdout.write(asked(kubeconfig, lambda client: reading.kubeconfig(client, key)).decode())
