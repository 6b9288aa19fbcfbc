"""The list of worlds: all that the program consists of, and which of their controllers a user chose.

Theory.      Each world is a value that its own package makes (``runtime.world``), and lists its controllers
             there: their names, the kinds they work on, the Leases they work under and what they do.
             ``--controllers``, its help and the groups that stand for Leases read these lists, and the
             ``assembly`` wires what they name. A world is added by one entry in ``worlds``. ``run`` works
             on servers that others have set up, and many have machines of one API only: there the
             controllers of a world that is ``on_request`` must be named. ``up`` has everything.
             docs/reference/controllers.md is generated from both lists.
Called by    ``assembly``, ``on_kubernetes``, ``embedded`` and ``cli``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kubewright import reserves
from kubewright.api.kinds import Kind
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap import world as bootstrap
from kubewright.clusters import world as clusters
from kubewright.compose.options import Options
from kubewright.controlplanes import world as controlplanes
from kubewright.controlplanes.world import FindHosts, no_hosts
from kubewright.driver.contract import Driver, Migrates
from kubewright.driver.guard import Listener
from kubewright.infra import world as infra
from kubewright.machines import world as machines
from kubewright.runtime.world import ControllerInfo, Environment, World

if TYPE_CHECKING:
    from kubewright.clusters.sessions import Connect
    from kubewright.controlplanes.certificates.keeper import SecretKeeper


def worlds(
    options: Options,
    drivers: Mapping[str, Driver],
    on_call: Callable[[str], Listener],
    hosts: FindHosts = no_hosts,
    connect: "Connect | None" = None,
) -> tuple[World, ...]:
    """The worlds of ``run``, in the order in which they are shown and started. VMs need a driver; that of
    ``options.driver`` is for what names none.

    ``hosts`` answers where components of nested control planes run, ``connect`` makes transports to them
    and to workload clusters; None: over sockets.
    """
    return (
        machines.world(drivers, options.driver, on_call, options.machine, options.orphans),
        clusters.world(strict_running=options.strict_running, connect=connect),
        bootstrap.world(options.bootstrap),
        infra.world(drivers, options.driver, on_call, options.infra),
        controlplanes.world(hosts, partial(_keeper, options), connect),
        reserves.world(options.reserves),
    )


def migrated_by(drivers: Mapping[str, Driver]) -> frozenset[str]:
    """The kinds of classes beside MachineClass that one of these drivers makes MachineClasses of."""
    able = (each for each in drivers.values() if isinstance(each, Migrates))
    return frozenset(kind.kind for each in able for kind in each.migrated_kinds())


def _keeper(options: Options, environment: Environment) -> "SecretKeeper":
    """Makes and renews the certificates of nested control planes, with the same sort of keys as the
    bootstrap provider's."""
    from kubewright.controlplanes.certificates.keeper import SecretKeeper

    return SecretKeeper(environment.control.caches, options.bootstrap.algorithm)


def shown(options: Options) -> tuple[World, ...]:
    """The worlds of ``run`` without a driver, for callers that read their lists and start no controller."""
    return worlds(options, {}, lambda _name: lambda _ended: None)


def listed(options: Options) -> list[ControllerInfo]:
    """Every controller that can be chosen."""
    return [each for world in shown(options) for each in world.controllers]


def chosen(options: Options) -> list[ControllerInfo]:
    """The controllers that ``options.controllers`` chooses.

    Raises:
        InvalidInput: it names a controller that does not exist, or leaves none to run, or one whose objects
            the watch filter or the shard of the options does not divide.
    """
    everything, lists = listed(options), shown(options)
    names = select(
        [each.name for each in everything],
        options.controllers,
        groups={world.name: [each.name for each in world.controllers] for world in lists},
        on_request={each.name for world in lists if world.on_request for each in world.controllers},
        follows={each.name: each.follows for each in everything if each.follows},
    )
    found = [each for each in everything if each.name in names]
    if options.watch_filter:
        _divided(
            lists, found, "a watch filter is for controllers of Cluster API", lambda w: bool(w.filter_label)
        )
    if not options.shard.whole:
        _divided(lists, found, "shards are for machines", lambda w: w.shards)
    return found


def _divided(
    lists: Sequence[World], found: Sequence[ControllerInfo], rule: str, divides: Callable[[World], bool]
) -> None:
    """Raises InvalidInput when a controller was chosen of a world whose objects are not divided so."""
    if undivided := [world.name for world in running(lists, found) if not divides(world)]:
        stead = ",".join(world.name for world in lists if divides(world))
        raise InvalidInput(f"{rule}; leave out those of {', '.join(undivided)}: --controllers {stead}")


def every_word(options: Options) -> tuple[str, ...]:
    """The words for ``--controllers`` that choose all controllers of all worlds."""
    return ("*", *(world.name for world in shown(options) if world.on_request))


def named(names: Iterable[str]) -> tuple[World, ...]:
    """The worlds of these names, of all where none is named, in the order of the list.

    Raises:
        InvalidInput: there is no world of a name.
    """
    there, asked = shown(Options()), {each.strip() for each in names if each.strip()}
    if unknown := sorted(asked - {each.name for each in there}):
        known = ", ".join(each.name for each in there)
        raise InvalidInput(f"no world {', '.join(unknown)}; there are: {known}")
    return tuple(each for each in there if not asked or each.name in asked)


def complete(chosen_worlds: Sequence[World]) -> tuple[World, ...]:
    """The worlds, for a server that will have the kinds of these and of no others.

    Raises:
        InvalidInput: the controllers of one need the kinds of another that was not chosen.
    """
    there = {each.name for each in chosen_worlds}
    for world in chosen_worlds:
        if lacking := [name for name in world.reads if name not in there]:
            more = ",".join([*(each.name for each in chosen_worlds), *lacking])
            raise InvalidInput(
                f"the controllers of {world.name} read objects of {', '.join(lacking)}, too: --worlds {more}"
            )
    return tuple(chosen_worlds)


def kinds(options: Options) -> list[Kind[Any]]:
    """The kinds of the worlds that have at least one chosen controller; the API server must serve them.

    Raises:
        InvalidInput: as ``chosen``.
    """
    return [kind for world in running(shown(options), chosen(options)) for kind in world.kinds]


def idle(options: Options) -> dict[str, Sequence[Kind[Any]]]:
    """The kinds of the worlds of which no controller is chosen, by name. One that the options switch off is
    not among them: its user knows.

    Raises:
        InvalidInput: as ``chosen``.
    """
    lists = shown(options)
    mine = running(lists, chosen(options))
    off = {word.strip()[1:] for word in options.controllers if word.strip().startswith("-")}
    known = [world for world in lists if world.name in off or all(e.name in off for e in world.controllers)]
    return {world.name: tuple(world.kinds) for world in lists if world not in (*mine, *known)}


def running(all_worlds: Iterable[World], controllers: Iterable[ControllerInfo]) -> list[World]:
    """Those of these worlds that have at least one of these controllers."""
    ours = set(controllers)
    return [world for world in all_worlds if not ours.isdisjoint(world.controllers)]


def makes_vms(options: Options) -> bool:
    """Whether a controller is chosen that asks a driver for VMs.

    Raises:
        InvalidInput: as ``chosen``.
    """
    return any(each.lease == machines.Half.MACHINES or each in infra.CONTROLLERS for each in chosen(options))


def leases(controllers: Iterable[ControllerInfo]) -> list[str]:
    """The Leases that these controllers work under, each once; empty for controllers without a Lease."""
    return list(dict.fromkeys(each.lease for each in controllers))


def select(
    known: Sequence[str],
    asked: Iterable[str],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    on_request: Collection[str] = (),
    follows: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """The controllers to run, in the order of ``known``. Pure.

    ``asked`` has the syntax of kube-controller-manager: ``*`` means every controller not ``on_request``,
    ``name`` switches one on, ``-name`` one off. The name of a group means all controllers in it but those
    that are named themselves. One that is named both ways is an error, since one of the two was a mistake.
    One that ``follows`` another is chosen with it, unless it is named itself.

    Raises:
        InvalidInput: an unknown name, or one both on and off; the message lists what exists.
    """
    words, groups = [word.strip() for word in asked if word.strip()], groups or {}
    on = {word for word in words if not word.startswith("-") and word != "*"}
    off = {word[1:] for word in words if word.startswith("-")}
    if unknown := sorted((on | off) - {*known, *groups}):
        there = ", ".join((*known, *groups))
        raise InvalidInput(f"unknown controller {', '.join(unknown)}; there are: {there}")
    if both := sorted(on & off):
        raise InvalidInput(f"controller {', '.join(both)} is switched both on and off")
    some, others = (
        {name for group in words & groups.keys() for name in groups[group]} for words in (on, off)
    )
    implied = set(known) - set(on_request) if "*" in words or not on else set()
    wanted = (on | ((some | implied) - others)) - off
    led = {name for name, leader in follows.items() if leader in wanted and name not in off}
    wanted = wanted - (follows.keys() - on) | led
    chosen = tuple(name for name in known if name in wanted)
    if not chosen:
        raise InvalidInput("no controller is left to run")
    return chosen
