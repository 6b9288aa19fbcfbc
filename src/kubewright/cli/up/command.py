"""``kubewright up``: everything in one process, until it is told to stop."""

import asyncio
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.apiserver.http.reach import reach
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.signals import run_until_signal
from kubewright.cli.up.merging import Merge, merge
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import kinds


def up(config: ServerConfig, options: Options, merging: Merge | None = None) -> None:
    """Serve from ``config``; returns after SIGINT or SIGTERM. ``merging``: change the user's kubeconfig too.

    Raises:
        InvalidInput: another process has the folder, the port is taken, or the folder cannot be used.
        FolderGone: the folder was deleted while it was served.
        DiskFailed: it cannot be written any more.
    """
    _check_folder_of(config.kubeconfig_path, config.data_dir)

    async def work(stop: asyncio.Event) -> None:
        async with Embedded(config, options, SystemClock()) as embedded:
            shown = first_look(kinds(options))
            words = greeting(embedded.kubeconfig, shown)
            if merging is not None:
                file = merge(merging, embedded.kubeconfig, config.data_dir, os.environ)
                words = words if file is None else merged_greeting(file, merging.context, shown)
            await embedded.serve(
                stop, lambda: print(words + standing_by(embedded.manager.waits_for()), flush=True)
            )

    run_until_signal(work)


def server(
    data_dir: Path,
    port: int | None,
    kubeconfig: Path | None,
    address: str,
    names: Iterable[str],
    *,
    accept_loss: bool,
) -> ServerConfig:
    """Where the server keeps its data and is reached, by the values of the switches.

    Raises:
        InvalidInput: the address or a name is none.
    """
    return ServerConfig(data_dir, port, kubeconfig, accept_loss, reach(address, names))


def _check_folder_of(kubeconfig: Path, data_dir: Path) -> None:
    """Refuse a kubeconfig in a folder that does not exist: most likely the path is mistyped."""
    if kubeconfig.parent != data_dir and not kubeconfig.parent.is_dir():
        raise InvalidInput(
            f"--kubeconfig {kubeconfig}: there is no folder {kubeconfig.parent}; make it first, "
            "or choose another file"
        )


def standing_by(waits: Iterable[tuple[str, str]]) -> str:
    """The lines about each Lease that another process holds, so that our controllers wait."""
    return "".join(
        f"\n  {holder} holds the lease {lease}: our own controllers wait until it is released"
        for lease, holder in waits
    )


def first_look(served: Iterable[Kind[Any]]) -> str:
    """What kubectl may list first: classes are there from the start; other kinds by name and group."""
    listed = [kind.resource for kind in served]
    if MACHINE_CLASS.resource in listed:
        return MACHINE_CLASS.resource.plural
    return f"{listed[0].plural}.{listed[0].group}"


def greeting(kubeconfig: Path, shown: str) -> str:
    """What is printed when all is ready; the command after ``try:`` can be pasted into a shell."""
    export = f"export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}"
    return f"kubewright is ready; its kubeconfig is {kubeconfig}\n  try: {export}; kubectl get {shown}"


def merged_greeting(file: Path, context: str, shown: str) -> str:
    """The same after a merge into the user's own kubeconfig: no variable is needed then."""
    return (
        f"kubewright is ready; context {context} is in {file}\n"
        f"  try: kubectl --context {shlex.quote(context)} get {shown}"
    )
