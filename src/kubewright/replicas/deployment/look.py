"""Look at one deployment, its sets and all their members.

Theory.      Everything is read from caches that already show our own writes. A look also ends the doubts
             about members that the cache shows by now (``MemberIndex.doubted``).
Invariants.  Nothing here writes to a server. Between looking and deciding nothing awaits.
Called by    ``act``; ``kubewright explain``.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from kubewright.kube.informer import Informer
from kubewright.replicas.deployment.seen import DeploymentPolicy, Seen
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import (
    BY_OWNER,
    WITHOUT_CONTROLLER,
    D,
    M,
    NotCreated,
    S,
    contradicts_template,
    key_of,
    read_selector,
)
from kubewright.rollout.progress import Counts


def look(
    policy: DeploymentPolicy[D, S, M],
    written: D,
    sets: Informer[S],
    index: MemberIndex[Any, M],
    *,
    wall: datetime,
    reported: float | None = None,
    best: Counts | None = None,
    in_doubt: bool = False,
    not_created: NotCreated | None = None,
) -> Seen[D, S, M]:
    """What is seen of one deployment; from ``reported`` on: what this process knows of it besides."""
    meta, spec = written.metadata, policy.with_defaults(written).spec
    selector, problem = read_selector(spec.selector)
    owned = sets.by(BY_OWNER, meta.uid)
    keeps = meta.deleting or policy.keeps_controlled
    ours = tuple(each for each in owned if keeps or selector.matches(each.metadata.labels))
    orphans = sets.by(WITHOUT_CONTROLLER, meta.namespace)
    return Seen(
        policy,
        written,
        wall,
        index.time(),
        sets=ours,
        unselected=tuple(each for each in owned if each not in ours) if len(ours) < len(owned) else (),
        orphans=tuple(
            each for each in orphans if not each.metadata.deleting and selector.matches(each.metadata.labels)
        ),
        members={each.metadata.uid: index.owned_by(each.metadata.uid) for each in owned},
        doubted={each.metadata.uid: len(index.doubted(each.metadata.uid)) for each in owned},
        reported=reported,
        best=best,
        in_doubt=in_doubt,
        not_created=not_created,
        selector_problem=problem
        or contradicts_template(spec.selector, selector, spec.template.metadata.labels)
        or _unreadable(sets, owned),
        around=policy.look(written),
    )


def _unreadable(sets: Informer[S], owned: Iterable[S]) -> str:
    """Why no sizes can be decided: of a set that cannot be read only a part is seen. Empty where all can."""
    problems = ((each.metadata.name, sets.problem(key_of(each))) for each in owned)
    return next((f"its set {name} is unreadable: {problem}" for name, problem in problems if problem), "")
