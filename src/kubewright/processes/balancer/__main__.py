"""The program: ``python -m kubewright.processes.balancer --listen=ADDRESS:PORT INSTANCE...``.

The instances are its arguments, or the lines of a file (``--instances``), where they come and go.

Theory.      It listens, gives up the rights of root if it has them, and serves until SIGTERM. Then it accepts
             no further connection, and ends when the open ones have ended, or after a deadline. As long as
             another process has the address it tries again, with a deadline: the one that has it may be an
             instance that is just being replaced.
Invariants.  Everything that it needs is imported before it gives up its rights, because the other user may
             not reach its files.
Called by    a supervisor; ``host`` of ``controlplanes`` makes the arguments.
"""

import argparse
import asyncio
import codecs
import errno
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence

from kubewright.base.clock import Clock, SystemClock
from kubewright.processes.balancer.readiness import follow, watch
from kubewright.processes.balancer.relay import Instance, Relay

MOST_CONNECTIONS = 2000
DESCRIPTORS_BESIDE = 64
"""File descriptors for other things than connections, of which each has two."""
LISTEN_SECONDS, LISTEN_PAUSE = 30.0, 0.05
END_SECONDS = 10.0
BACKLOG = 128


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments, and serve."""
    parser = argparse.ArgumentParser("kubewright-balancer", allow_abbrev=False)
    parser.add_argument("--listen", required=True, help="address and port, the latter also of the instances")
    parser.add_argument("--ready", default="", help="path that answers over HTTPS; empty: all count as ready")
    parser.add_argument("--user", default="", help="uid and gid to become, as UID:GID")
    parser.add_argument("--instances", default="", metavar="FILE", help="one address a line, read again")
    parser.add_argument("fixed", nargs="*", metavar="ADDRESS")
    chosen = parser.parse_args(arguments)
    if bool(chosen.instances) == bool(chosen.fixed):
        parser.error("name the instances, or a file of them")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    host, _, port = chosen.listen.rpartition(":")
    instances = [Instance(each, ready=not chosen.ready) for each in chosen.fixed]
    try:
        asyncio.run(_run((host, int(port)), instances, chosen))
    except OSError as error:
        sys.exit(f"Error: listen {chosen.listen}: {os.strerror(error.errno or 0)}")


async def _run(address: tuple[str, int], instances: list[Instance], chosen: argparse.Namespace) -> None:
    clock, ending, path = SystemClock(), asyncio.Event(), chosen.ready
    loop = asyncio.get_running_loop()
    relay = Relay(instances, address[1], clock, most=_connections())
    with await listening(address, clock, LISTEN_SECONDS) as listener:
        loop.add_signal_handler(signal.SIGTERM, ending.set)
        _drop_privileges(chosen.user)
        tasks = [loop.create_task(ending.wait()), loop.create_task(relay.accept(listener))]
        tasks += [loop.create_task(watch(each, address[1], path, clock)) for each in instances if path]
        if chosen.instances:
            tasks.append(loop.create_task(follow(chosen.instances, instances, address[1], path, clock)))
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()  # all of them but the first run until they are cancelled, or raise a bug of ours
    await relay.ended(END_SECONDS)


async def listening(address: tuple[str, int], clock: Clock, seconds: float) -> socket.socket:
    """A socket that listens there; for so many seconds it waits for an address that another one has.

    Raises:
        OSError: it cannot listen there.
    """
    until = clock.monotonic() + seconds
    while True:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setblocking(False)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(BACKLOG)
        except OSError as error:
            found.close()
            if error.errno != errno.EADDRINUSE or clock.monotonic() >= until:
                raise
            await clock.sleep(LISTEN_PAUSE)
        else:
            return found


def _connections() -> int:
    """How many connections there may be: as many as the system lets us have descriptors for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + DESCRIPTORS_BESIDE
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, (allowed - DESCRIPTORS_BESIDE) // 2)


def _drop_privileges(user: str) -> None:
    """Become another user. ``user``: ``UID:GID``; empty: stay as we are."""
    codecs.lookup("idna")  # is loaded for the first TLS connection, and may be out of reach by then
    if user:
        uid, gid = map(int, user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


if __name__ == "__main__":
    main(sys.argv[1:])
