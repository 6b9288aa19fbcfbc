"""The address of each instance, and the balancer between the endpoint of an API server and its instances.

Theory.      Linux answers on all of 127.0.0.0/8, so every instance gets an address of its own, and programs
             keep their usual ports and those that a user adds. The address is a hash of the instance's name
             and of a salt of the folder, so two folders rarely choose the same. An address that was given is
             written to a file, and is kept until the component is removed with its data. Machines beside this
             one, such as VMs on a bridge, reach no loopback address: for them the range is a private one, all
             of which the kernel answers for once it is routed to ``lo``.
Balancers.   Each API server has one address for clients, its endpoint, and each instance one of its own. A
             program of ours listens at the endpoint and passes connections on (``processes.balancer``). It is
             kept beside the instances of its workload as if it were one with the ordinal ``BALANCER``: so it
             outlives this program, is found again, and goes with its workload. It knows the addresses of all
             instances that there may ever be, so no change of their number restarts it (decision 0032).
Invariants.  No address is given twice from one folder. 127.0.0.1 and its network, where other programs
             listen, are in no range. An instance has the same address after a restart. A balancer runs while
             its workload is to have instances, however many; not as root, and with no key and no file. It is
             restarted only for other addresses, or another path of the readiness probe.
Called by    ``host``.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from kubewright.api.controlplane.names import Component
from kubewright.base.errors import InvalidInput, Unwritten
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.instances import (
    BALANCER,
    BALANCER_NAME,
    ProgramSettings,
    instance_of,
    name_of,
    program_name,
)
from kubewright.processes.program import HttpGet, Probe, Program, balancer
from kubewright.processes.record import replace_file

FILE = "addresses.json"
LOOPBACK, USUAL = IPv4Network("127.0.0.0/8"), IPv4Network("127.0.0.0/16")
PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
RANGE = "127.64.0.0/10"
"""Four million addresses, away from those that other programs use."""


class Allocations(msgspec.Struct, frozen=True):
    """The content of the file: addresses by ``<namespace>/<cluster>/<component>-<ordinal>``."""

    salt: str
    given: dict[str, str] = {}


def read_range(text: str) -> IPv4Network:
    """The address range that a user asks for.

    Raises:
        InvalidInput: it is not a range, or neither private nor of loopback apart from 127.0.0.1's network.
    """
    try:
        found = IPv4Network(text)
    except ValueError as error:
        raise InvalidInput(f"{text} is no range of addresses: {error}") from None
    if any(map(found.subnet_of, PRIVATE)) or (found.subnet_of(LOOPBACK) and not found.overlaps(USUAL)):
        return found
    raise InvalidInput(
        f"addresses of control planes are in {LOOPBACK} and not in {USUAL}, or in a private range "
        f"({', '.join(map(str, PRIVATE))}) that is routed to this machine, so not {text}"
    )


def covers(network: str, server: str) -> bool:
    """Whether the address of an API server (host:port) is in this range."""
    try:
        return IPv4Address(server.rpartition(":")[0]) in IPv4Network(network)
    except ValueError:
        return False


def choose(key: str, salt: str, taken: Container[str], network: IPv4Network) -> str:
    """The address for a key: the one of its hash, or the next one that is free.

    Raises:
        InvalidInput: all are taken.
    """
    size = network.num_addresses
    start = int.from_bytes(sha256(f"{salt}/{key}".encode()).digest()[:8]) % size
    for step in range(size):
        number = int(network.network_address) + (start + step) % size
        address = str(IPv4Address(number))
        if number & 0xFF not in (0, 0xFF) and address not in taken:
            return address
    raise InvalidInput(f"there is no address left in {network} for {key}")


def with_balancers(given: Mapping[str, str]) -> dict[str, str]:
    """These addresses, where the first instance had the one that clients know: now its balancer has it.

    So a file that was written before there were balancers changes no endpoint.
    """
    found = dict(given)
    for key, address in given.items():
        name, ordinal = instance_of(key)
        own = program_name(name, BALANCER)
        if ordinal == 0 and balanced(name[2]) and own not in given:
            found[own] = address
            del found[key]
    return found


class Addresses:
    """The addresses of a folder, whose lock the caller holds. ``salt``: for a folder that has no file yet."""

    def __init__(self, folder: Path, network: IPv4Network, salt: str) -> None:
        self._file = folder / FILE
        self._network = network
        found = _read(self._file) or Allocations(salt)
        self._allocations = Allocations(found.salt, with_balancers(found.given))

    def get(self, identity: WorkloadIdentity, ordinal: int) -> str:
        """The address of an instance, given now if it has none.

        Raises:
            InvalidInput: there is none left, or (``Unwritten``) it cannot be written down.
        """
        return self.reserve(identity, [ordinal])[0]

    def reserve(self, identity: WorkloadIdentity, ordinals: Iterable[int]) -> list[str]:
        """The addresses of several instances; as ``get``."""
        given, keys = dict(self._allocations.given), [_key(identity, ordinal) for ordinal in ordinals]
        for key in keys:
            if key not in given:
                given[key] = choose(key, self._allocations.salt, set(given.values()), self._network)
        if given != self._allocations.given:
            self._write(given)
        return [given[key] for key in keys]

    def known(self, identity: WorkloadIdentity, ordinal: int) -> str:
        """The address of an instance; empty if it has none."""
        return self._allocations.given.get(_key(identity, ordinal), "")

    def free(self, identity: WorkloadIdentity) -> None:
        """Free the addresses of a component that was removed.

        Raises:
            Unwritten: it cannot be written down.
        """
        name = name_of(identity)
        kept = {
            key: address for key, address in self._allocations.given.items() if instance_of(key)[0] != name
        }
        if kept != self._allocations.given:
            self._write(kept)

    def _write(self, given: dict[str, str]) -> None:
        allocations = Allocations(self._allocations.salt, given)
        try:
            replace_file(self._file, msgspec.json.encode(allocations))
        except OSError as error:
            raise Unwritten(f"cannot write {self._file}: {error.strerror or error}") from None
        self._allocations = allocations


def _read(file: Path) -> Allocations | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Allocations)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}") from None


def _key(identity: WorkloadIdentity, ordinal: int) -> str:
    return program_name(name_of(identity), ordinal)


MOST_INSTANCES = 7
"""As of an etcd. There is one address more, for an instance that runs beside a single one."""
SECURE = "https"


def balanced(component: str) -> bool:
    """Whether clients reach the instances of this component through a balancer."""
    return component == Component.API_SERVER


def problem_of_balancing(component: Component, replicas: int) -> str:
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
