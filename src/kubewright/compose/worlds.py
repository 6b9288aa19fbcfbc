"""The list of worlds: all that the program consists of, and which of their controllers a user chose.

Theory.      Each world is a value that its own package makes (``runtime.world``), and lists its controllers
             there: their names, the kinds they work on, the Leases they work under and what they do.
             ``--controllers``, its help and the groups that stand for Leases read these lists, and the
             ``assembly`` wires what they name. A world is added by one entry in ``worlds``.
             docs/reference/controllers.md is generated from both lists.
Called by    ``assembly``, ``cluster``, ``embedded`` and ``cli``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kubewright import builtin
from kubewright.api.kinds import Kind
from kubewright.base.errors import InvalidInput
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.compose.options import Options
from kubewright.driver.contract import Driver
from kubewright.driver.guard import Listener
from kubewright.machines import world as machines
from kubewright.runtime.world import ControllerInfo, World


def worlds(options: Options, driver: Driver | None, on_call: Listener) -> tuple[World, ...]:
    """The worlds of ``run``, in the order in which they are shown and started. Machines need a driver."""
    return (machines.world(driver, on_call, options.machine, options.orphans),)


def server_worlds(options: Options) -> tuple[World, ...]:
    """The worlds that only an embedded server runs: elsewhere, Kubernetes' own programs do their work."""
    nodes = NodeSettings(grace=options.grace)
    return (builtin.world(builtin.Settings(nodes=nodes, schedule_pods=True, run_apps=True)),)


def shown(options: Options) -> tuple[World, ...]:
    """The same worlds, for callers that read their lists and wire nothing."""
    return worlds(options, None, lambda _ended: None)


def listed(options: Options) -> list[ControllerInfo]:
    """Every controller that can be chosen."""
    return [each for world in shown(options) for each in world.controllers]


def chosen(options: Options) -> list[ControllerInfo]:
    """The controllers that ``options.controllers`` chooses.

    Raises:
        InvalidInput: it names a controller that does not exist, or leaves none to run.
    """
    everything = listed(options)
    names = select([each.name for each in everything], options.controllers)
    return [each for each in everything if each.name in names]


def kinds(options: Options) -> list[Kind[Any]]:
    """The kinds of the worlds of which a controller is chosen; they must be served.

    Raises:
        InvalidInput: as ``chosen``.
    """
    running = chosen(options)
    ours = [world for world in shown(options) if any(each in running for each in world.controllers)]
    return [kind for world in ours for kind in world.kinds]


def leases(controllers: Iterable[ControllerInfo]) -> list[str]:
    """The Leases that these controllers work under, each once; empty for controllers without a Lease."""
    return list(dict.fromkeys(each.lease for each in controllers))


def select(known: Sequence[str], asked: Iterable[str]) -> tuple[str, ...]:
    """The controllers to run, in the order of ``known``. Pure.

    ``asked`` has the syntax of kube-controller-manager: ``*`` means every controller, ``name`` switches one
    on, ``-name`` one off. One that is named both ways is an error, since one of the two was a mistake.

    Raises:
        InvalidInput: an unknown name, or one both on and off; the message lists what exists.
    """
    words = [word.strip() for word in asked if word.strip()] or ["*"]
    on = {word for word in words if not word.startswith("-") and word != "*"}
    off = {word[1:] for word in words if word.startswith("-")}
    if unknown := sorted((on | off) - set(known)):
        raise InvalidInput(f"unknown controller {', '.join(unknown)}; there are: {', '.join(known)}")
    if both := sorted(on & off):
        raise InvalidInput(f"controller {', '.join(both)} is switched both on and off")
    everything = "*" in words or not on
    chosen = tuple(name for name in known if name not in off and (everything or name in on))
    if not chosen:
        raise InvalidInput("no controller is left to run")
    return chosen
