"""Perform one pass of a drain: evict and delete what the plan says, and come back.

Theory.      A pass never waits for a pod (design decision D11): it sends each request once, some at
             a time, and notes who refused. Whether a pod left is seen in the next list of pods.
Invariants.  Each request names the pod's uid, so that a successor of the same name is never hit.
             A pod that is gone is success. One pod's failure never stops the others; it is noted
             in ``Tries`` like a refusal, and so leads to another try and at last to a deletion.
Called by    ``machines.machine.act``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.core import POD, Pod
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.nodes.drain.plan import DrainPlan, Tries, Try
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key

AT_ONCE = 10
"""Requests of one pass that are under way at the same time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a pass.

    ``accepted``  pods that leave now, or were gone already
    ``refused``   pod uid to why not, in the server's words
    ``tries``     what to hand to the next ``plan``
    """

    accepted: tuple[Pod, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    tries: Tries = field(default_factory=dict)


async def run(plan: DrainPlan, client: Client, *, now: datetime, tries: Tries | None = None) -> Outcome:
    """Perform ``plan`` once; ends after at most one API deadline per ``AT_ONCE`` pods.

    Raises nothing that an API server or the network can cause.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        asked = [(pod, group.create_task(_ask(gate, _evict, client, pod))) for pod in plan.evict]
        removed = [(pod, group.create_task(_ask(gate, _delete, client, pod))) for pod in plan.delete]
    done = [(pod, task.result(), False) for pod, task in asked]
    done += [(pod, task.result(), plan.forced) for pod, task in removed]
    return _outcome(plan, done, tries or {}, now)


def _outcome(plan: DrainPlan, done: Iterable[tuple[Pod, str, bool]], tries: Tries, now: datetime) -> Outcome:
    still = {pod.metadata.uid for pod in plan.waiting}
    following = {uid: tried for uid, tried in tries.items() if uid in still}
    accepted: list[Pod] = []
    refused: dict[str, str] = {}
    for pod, problem, forced in done:
        uid = pod.metadata.uid
        if not problem:
            accepted.append(pod)
            continue
        refused[uid] = f"{pod.namespace}/{pod.name}: {problem}"
        before = tries[uid].refused if uid in tries else 0
        following[uid] = Try(before + 1, now, forced)
    return Outcome(tuple(accepted), refused, following)


async def _ask(
    gate: asyncio.Semaphore, verb: Callable[[Client, Pod], Awaitable[None]], client: Client, pod: Pod
) -> str:
    """Why the pod stays; empty when it goes."""
    async with gate:
        try:
            await verb(client, pod)
        except NotFound:
            return ""
        except Conflict as error:
            # Either another pod has taken the name, and ours is gone, or the server was busy:
            # the next list of pods tells.
            return str(error)
        except KubewrightError as error:
            return str(error)
    return ""


async def _evict(client: Client, pod: Pod) -> None:
    await client.evict(Key(pod.namespace, pod.name), uid=pod.metadata.uid)


async def _delete(client: Client, pod: Pod) -> None:
    await client.delete(POD, Key(pod.namespace, pod.name), uid=pod.metadata.uid, grace=0)
