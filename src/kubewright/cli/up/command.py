"""``kubewright up``: the switches as options, everything in one process until it is told to stop, a greeting.

Invariants.  The user's own kubeconfig changes only with ``--merge-kubeconfig``, and only once the server
             serves. What a user typed is checked before anything starts.
Called by    ``cli.app``.
"""

import asyncio
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.apiserver.http.kubeconfig import change, ours_in
from kubewright.apiserver.http.reach import reach
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import (
    UpSwitches,
    bootstrap,
    controllers,
    driver_options,
    processes,
    run_until_signal,
)
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import kinds


@dataclass(frozen=True, slots=True)
class Merge:
    """The switches: the name of the context, and whether it becomes the current one."""

    context: str
    use: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidInput for a name that is empty or has unprintable characters."""
        if not self.context.strip() or not self.context.isprintable():
            raise InvalidInput(f"--context {self.context!r} is no name of a context")


def wanted(context: str, *, merge: bool, use: bool) -> Merge | None:
    """What the switches ask for; None: to leave the user's file alone.

    Raises:
        InvalidInput: the context is to be used and not to be merged, or its name is none.
    """
    if use and not merge:
        raise InvalidInput("--use-context goes with --merge-kubeconfig")
    return Merge(context, use) if merge else None


def merge(asked: Merge, kubeconfig: Path, data_dir: Path, environment: Mapping[str, str]) -> Path | None:
    """Put the entries of ``kubeconfig`` (ours) into the user's file; returns its path, None where it is ours.

    Raises:
        InvalidInput: the file is no kubeconfig, has the name for something else, or cannot be written.
    """
    path = users_file(environment)
    if os.path.realpath(path) == os.path.realpath(kubeconfig):
        return None
    change(path, ours_in(kubeconfig.read_bytes(), asked.context, data_dir), use=asked.use)
    return path


def users_file(environment: Mapping[str, str]) -> Path:
    """The file that ``kubectl config`` writes to."""
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0] if listed else "~/.kube/config").expanduser()


def up(config: ServerConfig, options: Options, merging: Merge | None = None) -> None:
    """Serve from ``config``; returns after SIGINT or SIGTERM. ``merging``: change the user's kubeconfig too.

    Raises:
        InvalidInput: another process has the folder, the port is taken, or the folder cannot be used.
        FolderGone: the folder was deleted while it was served.
        DiskFailed: it cannot be written any more.
    """
    _check_folder_of(config.kubeconfig_path, config.data_dir)

    async def work(stop: asyncio.Event) -> None:
        async with Embedded(config, with_tokens_for_kubeadm(options), SystemClock()) as embedded:
            shown = first_look(kinds(options))
            words = greeting(embedded.kubeconfig, shown)
            if merging is not None:
                file = merge(merging, embedded.kubeconfig, config.data_dir, os.environ)
                words = words if file is None else merged_greeting(file, merging.context, shown)
            await embedded.serve(
                stop, lambda: print(words + standing_by(embedded.manager.waits_for()), flush=True)
            )

    run_until_signal(work)


def serve(typed: UpSwitches) -> None:
    """``up`` with what the user typed.

    Raises:
        InvalidInput: a switch has a bad value; and as ``up``.
    """
    reached = reach(typed.address, typed.tls_san or ())
    config = ServerConfig(typed.data_dir, typed.port, typed.kubeconfig, typed.accept_data_loss, reached)
    options = Options(
        controllers=controllers(typed.worlds, clusters=not typed.no_clusters),
        driver=typed.driver,
        driver_options=driver_options(typed.driver_option or (), typed.driver),
        bootstrap=bootstrap(typed.encryption_algorithm),
        strict_running=typed.strict_running,
        processes=processes(
            typed.programs, typed.addresses, typed.user, typed.users, shared=typed.share_user
        ),
    )
    up(config, options, wanted(typed.context, merge=typed.merge_kubeconfig, use=typed.use_context))


def with_tokens_for_kubeadm(options: Options) -> Options:
    """The options with which a machine's own token is one that ``kubeadm join`` can use here: of the group
    that may read what ``kubeadm init`` would have made, and ask for a node's certificate."""
    groups = options.machine.token_groups or TOKEN_GROUPS
    return replace(options, machine=replace(options.machine, token_groups=groups))


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
