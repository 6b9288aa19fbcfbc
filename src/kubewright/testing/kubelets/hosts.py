"""The addresses and the names of pods, where no network gives them any.

Theory.      Each pod has an address of the loopback network. In a cluster a DNS server knows pods by the name
             of their Service; programs that are given such names find them here in a file of hosts that
             stands in the place of ``/etc/hosts``, in a mount namespace of the program's own.
Invariants.  The file is written in place, because a mount shows the file that there was.
Called by    ``kubelet``.
"""

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from kubewright.processes.program import Program

INTO_NAMESPACE = ("/usr/bin/unshare", "--mount")
UNDER_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'
Pod = Mapping[str, Any]


@cache
def may_mount() -> bool:
    """Whether programs can be given a file of hosts: whether this process may make mount namespaces."""
    try:
        return subprocess.run([*INTO_NAMESPACE, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def address_of(pod: Pod) -> str:
    """An address of the loopback network, of this pod alone if its namespace is called as no other server's.

    Servers of tests give the same uids again, and the network is one for all of them.
    """
    meta = pod["metadata"]
    digest = sha256(f"{meta['namespace']}/{meta['uid']}".encode()).digest()
    return f"127.{64 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"


def hosts_of(pods: Iterable[Pod]) -> str:
    """The lines of ``/etc/hosts``: each pod by its own name and by that of its Service."""
    lines = ["127.0.0.1 localhost"]
    for pod in pods:
        service = f"{pod['spec'].get('subdomain', '')}.{pod['metadata']['namespace']}.svc"
        lines.append(f"{address_of(pod)} {pod['metadata']['name']}.{service} {service}")
    return "\n".join(lines) + "\n"


def rewrite(path: Path, text: str) -> None:
    """Make this the content of the file, unless it is."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def knowing(program: Program, hosts: Path) -> Program:
    """The program with this file of hosts; its process stays the one that is started."""
    argv = (*INTO_NAMESPACE, "/bin/sh", "-c", UNDER_HOSTS, str(hosts), *program.argv)
    return replace(program, argv=argv)
