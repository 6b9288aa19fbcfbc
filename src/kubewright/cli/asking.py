"""Which server a command asks, and how it is asked once.

Theory.      A kubeconfig or a data folder that a switch names comes first; then ``$KUBECONFIG``, as for
             kubectl; then the server of ``DATA_DIR`` in the current folder, as ``status`` and ``down`` find
             it; then the pod we run in, and ``~/.kube/config``. Each command says on stderr which of them it
             was.
Called by    the ``command`` modules of ``cluster``, ``rollout``, ``explain``, ``troubles`` and ``watch``.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kubewright.api.core import NAMESPACE
from kubewright.apiserver.http.kubeconfig import NAME
from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import DATA_DIR, Where
from kubewright.compose.folder import recall, serving
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.wire.errors import Forbidden, NotFound
from kubewright.wire.gvk import Key

T = TypeVar("T")


OUTPUTS = ("", "json")
"""The forms of output: text, which differs by command, and JSON."""


def refuse_unknown(output: str) -> None:
    """Raise InvalidInput for a form of output that there is not."""
    if output not in OUTPUTS:
        raise InvalidInput(f"-o {output!r} is not known; there is: json")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kubeconfig (None: as ``kube.config.load`` finds one), its context, and how it was found."""

    kubeconfig: Path | None
    context: str
    how: str


def choose(where: Where, environ: Mapping[str, str], served: Callable[[Path], Path | str]) -> Chosen:
    """The server that is meant. ``served``: the kubeconfig of the server of a folder, or why there is none.

    Raises:
        InvalidInput: two servers are named, or the named folder is not served.
    """
    if where.kubeconfig is not None and where.data_dir is not None:
        raise InvalidInput("--kubeconfig and --data-dir name a server each; leave one out")
    if where.kubeconfig is not None:
        return Chosen(where.kubeconfig, "", f"--kubeconfig {where.kubeconfig}")
    if where.data_dir is not None:
        found = served(where.data_dir)
        if isinstance(found, str):
            raise InvalidInput(found)
        return Chosen(found, NAME, f"--data-dir {where.data_dir}")
    if environ.get("KUBECONFIG"):
        return Chosen(None, "", "$KUBECONFIG")
    if isinstance(here := served(DATA_DIR), Path):
        return Chosen(here, NAME, f"the data folder {DATA_DIR} here")
    return Chosen(None, "", "the pod we run in" if config.runs_in_cluster() else "~/.kube/config")


def served(data_dir: Path) -> Path | str:
    """The kubeconfig of the server that serves a folder, or why there is none."""
    try:
        process, address = serving(data_dir), recall(data_dir)
    except InvalidInput as error:
        return str(error)
    if process is None:
        return f"nothing serves {data_dir}; start it with `kubewright up --data-dir {data_dir}`"
    if address is None:
        return f"the server of {data_dir} is still starting; try again in a moment"
    return Path(address.kubeconfig)


def connected(where: Where, clock: Clock) -> Client:
    """A client of the server that is meant; says on stderr which it is.

    Raises:
        InvalidInput: as ``choose``, or the kubeconfig cannot be used.
    """
    chosen = choose(where, os.environ, served)
    transport = config.load(chosen.kubeconfig, chosen.context, clock=clock)
    print(f"server: {transport.access.server} ({chosen.how})", file=sys.stderr)
    return Client(transport, clock, name=transport.access.server)


async def require_namespace(client: Client, name: str) -> None:
    """Refuse a namespace that the server does not have; one that the user may not read passes.

    Raises:
        InvalidInput: there is none of this name.
        ApiError, TransportError: the server refused for another reason, or did not answer.
    """
    try:
        await client.get(NAMESPACE, Key("", name))
    except NotFound:
        raise InvalidInput(f"{client.name} has no namespace {name}") from None
    except Forbidden:
        return


def asked(where: Where, ask: Callable[[Client], Awaitable[T]]) -> T:
    """What ``ask`` answers, with a client of the server that is meant.

    Raises:
        InvalidInput: as ``connected``, or what ``ask`` raises.
    """

    async def work() -> T:
        client = connected(where, SystemClock())
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(work())
