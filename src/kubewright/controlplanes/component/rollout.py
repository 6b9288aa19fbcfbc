"""Which instance of a component is replaced next. Pure.

Theory.      An instance that runs with other settings than those applied last is replaced. One that is not
             ready goes first: no client can use it, and the change may be its repair, such as a renewed
             certificate. Of those that are ready, one is replaced at a time, only while all others are ready,
             and the highest ordinal first, as a StatefulSet does.
             A single instance is replaced without a pause where its host can run one more beside it: a second
             one is started with the new settings, then the first one is replaced, then the second one ends.
Invariants.  At most one instance is missing because of a rollout. With three members or more, a rollout never
             leaves fewer ready members than a majority. While a single instance is ready, it is not replaced
             before a second one is ready too, if its host can run one.
Source       nested.md D6 (rolling change), A9; decision 0032 (the second instance).
Called by    ``decide``, for all components and all hosts; ``status`` and ``obstacles`` count by it.
"""

from kubewright.controlplanes.hosting.contract import Instance, Running, Workload


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
