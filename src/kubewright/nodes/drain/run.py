"""Perform one pass of a drain: send the evictions and deletions of the plan, and note the refusals.

Theory.      A pass never waits for a pod to leave: it sends each request once, some at a time, and
             notes the errors. Whether a pod left is seen in the next list of pods.
Invariants.  Each request names the pod's uid, so that a later pod of the same name is never hit.
             A pod that is gone is success. One pod's failure never stops the others; it is noted
             in ``Tries`` like a refusal, and so leads to another try and at last to a deletion.
Called by    ``machines.machine.act``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.core import PDB, POD, Pod, PodDisruptionBudget
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.nodes.drain.obstacles import explain
from kubewright.nodes.drain.plan import DrainPlan, Tries, Try
from kubewright.wire.errors import ApiError, NotFound
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
    budgets = await _budgets(client, [(pod, error) for pod, error, _ in done if error is not None])
    return _outcome(plan, done, tries or {}, budgets, now)


Done = tuple[Pod, KubewrightError | None, bool]
"""A pod, why it stays if it does, and whether that was its forced deletion."""


def _outcome(
    plan: DrainPlan, done: Iterable[Done], tries: Tries, budgets: Sequence[PodDisruptionBudget], now: datetime
) -> Outcome:
    asked = {pod.metadata.uid for pod in (*plan.evict, *plan.delete)}
    still = plan.known | {pod.metadata.uid for pod in plan.waiting}
    following = {uid: tried for uid, tried in tries.items() if uid in still - asked}
    accepted: list[Pod] = []
    refused: dict[str, str] = {}
    for pod, error, forced in done:
        uid = pod.metadata.uid
        if error is None:
            accepted.append(pod)
            continue
        refused[uid] = f"{pod.namespace}/{pod.name}: {error}"
        before = tries.get(uid, Try(0, now))
        why = explain(pod, error, budgets)
        following[uid] = Try(before.refused + 1, now, forced, before.first or now, why)
    return Outcome(tuple(accepted), refused, following)


async def _budgets(
    client: Client, refusals: Sequence[tuple[Pod, KubewrightError]]
) -> Sequence[PodDisruptionBudget]:
    """The budgets that may stand behind refusals, in one request; none if they cannot be read.

    Refusals are rare and rest for 20 s, so that a cache of budgets would cost more.
    """
    asked = {
        pod.namespace for pod, error in refusals if isinstance(error, ApiError) and error.code in (429, 500)
    }
    if not asked:
        return ()
    try:
        return await client.list(PDB, asked.pop() if len(asked) == 1 else "")
    except KubewrightError:
        return ()


async def _ask(
    gate: asyncio.Semaphore, verb: Callable[[Client, Pod], Awaitable[None]], client: Client, pod: Pod
) -> KubewrightError | None:
    """Why the pod stays; None when it goes."""
    async with gate:
        try:
            await verb(client, pod)
        except NotFound:
            return None
        except KubewrightError as error:
            # A conflict, too: either another pod has taken the name, and ours is gone, or the server
            # was busy. The next list of pods tells.
            return error
    return None


async def _evict(client: Client, pod: Pod) -> None:
    await client.evict(Key(pod.namespace, pod.name), uid=pod.metadata.uid)


async def _delete(client: Client, pod: Pod) -> None:
    await client.delete(POD, Key(pod.namespace, pod.name), uid=pod.metadata.uid, grace=0)
