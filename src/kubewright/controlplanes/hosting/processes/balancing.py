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

from dataclasses import replace
from urllib.parse import urlsplit

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.instances import (
    BALANCER,
    BALANCER_NAME,
    ProgramSettings,
    name_of,
    program_name,
)
from kubewright.processes.program import HttpGet, Probe, Program, balancer

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
    path = _readiness_path(first.readiness)
    arguments = [f"--ready={path}"] if path else []
    if user is not None:
        arguments.append(f"--user={user[0]}:{user[1]}")
    made = balancer(
        program_name(name_of(identity), BALANCER),
        endpoint,
        (*arguments, *hosts),
        {"INSTANCE": f"{identity.workload}-{BALANCER_NAME}"},
    )
    return replace(made, settings=str(ProgramSettings(made.settings)))


def _readiness_path(probe: Probe | None) -> str:
    """The path that instances are asked for over HTTPS; empty: they are asked otherwise, or not at all."""
    if probe is None or not isinstance(probe.check, HttpGet):
        return ""
    url = urlsplit(probe.check.url)
    query = f"?{url.query}" if url.query else ""
    return f"{url.path}{query}" if url.scheme == SECURE else ""
