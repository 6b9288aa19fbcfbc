"""What should run for a component: which manifests, how many instances, and which is replaced next. Pure.

Manifests.   The templates are rendered first. The volumes of the result name the Secrets and ConfigMaps that
             ``look`` has to read. The manifests and this content together are the workload. A Secret that a
             volume calls optional may be missing; only the entries that a volume lists are asked for.
Members.     The spec of an etcd says how many members there should be in the end; how many instances run now
             follows from who is a member (``members.decide``). So the host is given a number that changes by
             one at a time, each time after the members have changed. The members of an etcd that was stopped
             cannot be asked; the addresses in its status tell how many it had, and where its object was made
             anew, the data that was kept. It starts again with as many, because with fewer it would have no
             majority. Certificates are made for ``MAX_MEMBERS`` members, so that no change of the number
             replaces one.
Rollouts.    An instance that runs with other settings than those applied last is replaced. One that is not
             ready goes first: no client can use it, and the change may be its repair, such as a renewed
             certificate. Of those that are ready, one is replaced at a time, only while all others are ready,
             and the highest ordinal first, as a StatefulSet does. A single instance is replaced without a
             pause where its host can run one more beside it: a second one is started with the new settings,
             then the first one is replaced, then the second one ends (decision 0032).
Invariants.  At most one instance is missing because of a rollout. With three members or more, a rollout never
             leaves fewer ready members than a majority. While a single instance is ready, it is not replaced
             before a second one is ready too, if its host can run one. While the members cannot be asked, the
             number of instances and the variables of new members stay as they are.
Called by    ``look``, which makes the values; ``decide``, ``status`` and ``obstacles`` count by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubewright.api.controlplane.names import CLIENT_PORTS, Component
from kubewright.api.controlplane.v1alpha4 import ComponentSpec
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes import members
from kubewright.controlplanes.component.policies import Policy, common_values
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.hosting.contract import (
    Contents,
    Instance,
    Running,
    Workload,
    WorkloadAddresses,
    WorkloadIdentity,
)
from kubewright.controlplanes.members import bracketed, peer_url
from kubewright.controlplanes.templates.choice import Choice
from kubewright.controlplanes.templates.render import Rendered, render


@dataclass(frozen=True, slots=True)
class Source:
    """A Secret or a ConfigMap that volumes name.

    ``keys``      the entries that they show; empty: all
    ``required``  those of them without which a volume cannot be shown
    ``optional``  no volume needs the object itself
    """

    kind: str
    name: str
    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def rendered_for(
    policy: Policy,
    spec: ComponentSpec,
    choice: Choice,
    family: Family,
    *,
    identity: WorkloadIdentity,
    replicas: int,
) -> tuple[Rendered | None, str]:
    """The rendered manifests, or why the templates could not be rendered: one of the two is empty."""
    values = {**common_values(family, identity), **policy.template_values(family, replicas)}
    try:
        return render(spec, choice, values, namespace=identity.namespace, replicas=replicas), ""
    except InvalidInput as error:
        return None, str(error)


def sources(rendered: Rendered) -> tuple[Source, ...]:
    """The Secrets and ConfigMaps that the volumes of a workload name, each once, in order."""
    volumes = rendered.workload["spec"]["template"]["spec"].get("volumes") or ()
    found: dict[tuple[str, str], Source] = {}
    for each in (source for volume in volumes for source in _of_volume(volume)):
        known = found.get((each.kind, each.name))
        found[each.kind, each.name] = each if known is None else _joined(known, each)
    return tuple(found.values())


def missing_of(source: Source, contents: Contents | None) -> list[str]:
    """What volumes need of a source and does not exist, in words for users."""
    if contents is None:
        return [] if source.optional else [str(source)]
    return [f"{source} has no {key}" for key in source.required if key not in contents]


def _joined(one: Source, other: Source) -> Source:
    keys = (*one.keys, *other.keys) if one.keys and other.keys else ()
    return replace(
        one,
        keys=tuple(dict.fromkeys(keys)),
        required=tuple(dict.fromkeys((*one.required, *other.required))),
        optional=one.optional and other.optional,
    )


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Source]:
    for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for source, kind, name in (("secret", "Secret", "secretName"), ("configMap", "ConfigMap", "name")):
            if (found := part.get(source)) is not None:
                keys = tuple(each.get("key", "") for each in found.get("items") or ())
                named, optional = found.get(name) or found.get("name") or "", bool(found.get("optional"))
                yield Source(kind, named, keys, () if optional else keys, optional)


def current(workload: Workload | None, running: Running) -> list[Instance]:
    """The instances that run with the wanted settings; none while these are not known."""
    if workload is None:
        return []
    return [each for each in running.instances if each.fingerprint == workload.fingerprint]


def outdated(workload: Workload, running: Running) -> list[Instance]:
    """The instances that run with other settings than the wanted ones, in the order of ``Running``."""
    return [each for each in running.instances if each.fingerprint != workload.fingerprint]


def next_instance(workload: Workload, running: Running) -> int | None:
    """The ordinal of the instance to replace now; None: there is none, or it has to wait.

    An instance beyond the wanted number is ended by its host, and never replaced.
    """
    if any(each.ending for each in running.instances):
        return None
    instances = [each for each in running.instances if each.ordinal < workload.replicas]
    old = [each for each in instances if each.fingerprint != workload.fingerprint]
    # It is replaced even while others are not ready: an etcd may need this member to have a majority.
    if broken := [each.ordinal for each in old if not each.ready]:
        return max(broken)
    if len(instances) < workload.replicas or not all(each.ready for each in instances):
        return None
    return max((each.ordinal for each in old), default=None)


def size_in_rollout(workload: Workload, running: Running) -> int:
    """How many instances should run now, on a host that can run one more beside a single one.

    Args:
        workload: with the number of instances that the spec asks for.
    """
    first = next((each for each in running.instances if each.ordinal == 0), None)
    if workload.replicas != 1 or first is None or not running.replicas:
        return workload.replicas
    good = first.ready and not first.ending
    if first.fingerprint == workload.fingerprint:
        return 1 if good else min(running.replicas, 2)
    return 2 if good or running.replicas > 1 else 1


MAX_MEMBERS = 7
"""As etcd itself advises: each write waits for more than half of the members."""

FRAGILE = 2
"""With so many voters each is needed for a majority. An etcd has this number only while it changes."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What is known of the members of an etcd, and what follows.

    ``size``       how many instances should run now
    ``variables``  the environment with which an instance without data joins or starts the etcd
    ``plan``       the next change of members
    ``settled``    whether they are as the spec wants them, as far as that is known; true for a host whose
                   etcd has no members (our own API server)
    ``needs_all``  whether each of several members with a vote is needed for a majority, as while two have
                   one: no instance that is ready is replaced then
    """

    size: int
    variables: Mapping[str, str] = field(default_factory=dict)
    plan: members.Plan = field(default_factory=members.Plan)
    settled: bool = True
    needs_all: bool = False


def problem_of_number(asked: int) -> str:
    """What is wrong with a number of members, a sentence; empty if nothing is. 0 is allowed."""
    if asked > MAX_MEMBERS:
        return f"spec.replicas is {asked}: more than {MAX_MEMBERS} members make an etcd slower, not safer"
    if asked and asked % 2 == 0:
        told = f"with {asked} it stands the loss of no more of them than with {asked - 1}"
        return f"spec.replicas is {asked}: etcd needs an odd number of members: {told}"
    return ""


def must_be_asked(asked: int, running: Running, *, up_to_date: bool) -> bool:
    """Whether the members have to be asked: not while none is ready, nor where one is all that is wanted.

    Args:
        asked: the number in the spec.
        running: what the host has.
        up_to_date: whether the status says that all is as this very spec asks. If not, a member may be left
            of a larger number that was asked for in between, though only one instance was ever to run.
    """
    alone = asked == running.replicas == 1
    if not asked or problem_of_number(asked) or (alone and up_to_date):
        return False
    return any(each.ready for each in running.instances)


def peers(identity: WorkloadIdentity, addresses: WorkloadAddresses, count: int) -> dict[str, str]:
    """The peer URLs of the first ``count`` instances, by their names."""
    hosts = enumerate(addresses.hosts[:count])
    return {identity.instance(number): peer_url(host) for number, host in hosts}


def endpoints(running: Running) -> list[members.Endpoint]:
    """The client endpoints of the instances that run; one that is ending counts as not answering."""
    return [
        members.Endpoint(
            f"https://{bracketed(each.address or each.host)}:{CLIENT_PORTS[Component.ETCD]}",
            each.host if each.address else "",
        )
        for each in running.instances
        if not each.ending
    ]


def membership(
    asked: int,
    identity: WorkloadIdentity,
    addresses: WorkloadAddresses,
    running: Running,
    *,
    before: int,
    begun: bool,
    found: members.Seen | None,
) -> Membership:
    """How many instances are to run now, and which change of members is next.

    Args:
        asked: the number in the spec; one that ``problem_of_number`` refuses is refused before any step.
        before: how many members there were before the etcd was stopped; 0 if that is not known.
        begun: whether it has ever been ready. If so, one of several members that has no data yet was stopped
            before it could join: it joins now, and begins no cluster of its own.
        found: what the members answered; None: they were not asked.
    """
    if not asked or not addresses.hosts:
        return Membership(asked, _unchanged(running))
    if not running.applied or not running.replicas:
        size = before or running.kept or asked
        first = members.Seen(peers(identity, addresses, size))
        joins = begun and size > 1
        return Membership(size, members.initial_variables(first, joins=joins), settled=size == asked)
    if found is None or not found.members:
        plan = members.decide(found) if found is not None else members.Plan()
        settled = running.replicas == asked
        if not settled and not plan.because:
            plan = members.Plan(because="none of its members is ready, so that they could be asked")
        return Membership(running.replicas, _unchanged(running), plan, settled)
    plan, size = members.decide(found), members.replicas(found)
    settled = size == asked == len(found.voters) == len(found.members)
    needs_all = not settled and len(found.voters) == FRAGILE
    variables = members.initial_variables(found)
    return Membership(size or running.replicas, variables, plan, settled, needs_all)


def _unchanged(running: Running) -> dict[str, str]:
    return {name: running.variables[name] for name in members.VARIABLES if name in running.variables}
