"""The program that balances the connections to the endpoint of an API server over its instances.

Theory.      Each API server has one address for clients, its endpoint, and each instance one of its own. A
             program of ours listens at the endpoint and passes connections on (``processes.balancer``). It is
             kept beside the instances of its workload as if it were one with the ordinal ``BALANCER``: so it
             outlives this program, is found again, and goes with its workload. It knows the addresses of all
             instances that there may ever be, so no change of their number restarts it.
Invariants.  It runs while its workload is to have instances, however many. It does not run as root, and
             has no key and no file. It is restarted only for other addresses, or another path of the
             readiness probe.
Source       decision 0032.
Called by    ``host``.
"""

import sys
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import kubewright
from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.instances import (
    BALANCER,
    BALANCER_NAME,
    ProgramSettings,
    name_of,
    program_name,
)
from kubewright.processes.program import HttpGet, Probe, Program, TcpConnect

MODULE = "kubewright.processes.balancer"
MOST_INSTANCES = 7
"""As of an etcd. There is one address more, for an instance that runs beside a single one."""
SECURE = "https"


def balanced(component: str) -> bool:
    """Whether clients reach the instances of this component through a balancer."""
    return component == Component.API_SERVER


def problem_of(component: Component, replicas: int) -> str:
    """What is wrong with a number of instances, a sentence; empty if nothing is."""
    if not balanced(component) or replicas <= MOST_INSTANCES:
        return ""
    return f"spec.replicas is {replicas}: on one machine there may be at most {MOST_INSTANCES} API servers"


def balancer_of(
    identity: WorkloadIdentity,
    endpoint: tuple[str, int],
    hosts: list[str],
    first: Program,
    user: tuple[int, int] | None,
) -> Program:
    """The balancer of a workload.

    Args:
        hosts: the addresses of all instances that there may be.
        first: the program of an instance, for its readiness probe.
        user: uid and gid that programs run as; None: ours. It becomes this user itself, after it has read
            what the other user may not.
    """
    listen, path = f"{endpoint[0]}:{endpoint[1]}", _readiness_path(first.readiness)
    options = [f"--listen={listen}"]
    if path:
        options.append(f"--ready={path}")
    if user is not None:
        options.append(f"--user={user[0]}:{user[1]}")
    arguments = (*options, *hosts)
    listens = TcpConnect(*endpoint)
    return Program(
        name=program_name(name_of(identity), BALANCER),
        argv=(sys.executable, "-S", "-P", "-m", MODULE, *arguments),
        environment={
            "INSTANCE": f"{identity.workload}-{BALANCER_NAME}",
            "PYTHONPATH": str(Path(kubewright.__file__).parents[1]),
        },
        startup=Probe(listens, period=0.1, failures=600),
        readiness=Probe(listens),
        grace=15.0,
        settings=str(ProgramSettings(sha256("\0".join(arguments).encode()).hexdigest()[:16])),
    )


def _readiness_path(probe: Probe | None) -> str:
    """The path that instances are asked for over HTTPS; empty: they are asked otherwise, or not at all."""
    if probe is None or not isinstance(probe.check, HttpGet):
        return ""
    url = urlsplit(probe.check.url)
    query = f"?{url.query}" if url.query else ""
    return f"{url.path}{query}" if url.scheme == SECURE else ""
