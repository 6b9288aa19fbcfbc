"""What people do where a server refuses what it would refuse for ever: a name too long, a missing role.

Called by    ``stories``, as ``acts``.
"""

from kubewright.testing.simulation.journal import Object
from kubewright.testing.simulation.network import READS
from kubewright.testing.simulation.person import Person
from kubewright.wire.http import Request

FORBIDDEN_SECONDS = 30.0
"""How long a role is wrong: shorter than a refused write rests."""


async def name_too_long(person: Person) -> None:
    """The name of its node is no label value, so its VM can never be recorded: it says so, and can go."""
    name = "m" + 74 * "x"
    await person.make_machine(name, "lonely")
    await person.until(lambda: any(map(is_refused, person.machines)), "the machine says what is refused")
    await person.delete_machine(name)


async def delete_while_nodes_are_forbidden(person: Person) -> None:
    """A role is wrong for a while: nodes can be read, and not written to."""
    person.world.weather.blow("forbid", FORBIDDEN_SECONDS, share=1.0, aim=writes_to_nodes)
    await person.delete("pool")
    await person.until(lambda: any(map(is_refused, person.machines)), "a machine says what is refused")


def is_refused(machine: Object) -> bool:
    """Whether it says that a write is refused."""
    return "The API server refused to " in machine.get("status", {}).get("lastOperation", {}).get(
        "description", ""
    )


def writes_to_nodes(_client: str, request: Request) -> bool:
    """Whether a request would change a Node."""
    return request.method not in READS and request.path.startswith("/api/v1/nodes/")
