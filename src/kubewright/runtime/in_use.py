"""Keep objects while others need them: our finalizer goes on with the first user, and off after the last.

Theory.      A VM can only be deleted with what it was made with. Deleted too early, a class or a Secret
             stays, marked as being deleted, until nothing needs it; so users may delete in any order.
Invariants.  One write when the first user appears, one when the last is gone; none in between. An object that
             is already being deleted takes no new finalizers.
Called by    ``machines.machineclass`` for classes and Secrets, ``infra.world`` for Secrets.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from kubewright.api.meta import KubeObject, with_finalizer, without_finalizer
from kubewright.base.plan import Awaited
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import onto
from kubewright.runtime.events import Recorder
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.passes import idle
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key

T = TypeVar("T", bound=KubeObject)


class InUse(Generic[T]):
    """The reconciler of a kind whose objects carry the finalizer ``ours`` while ``used`` says so.

    Args:
        lingers: an object without users keeps the finalizer until it is being deleted; so one whose users
            come and go is not written each time.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        cache: Informer[T],
        used: Callable[[Key], bool],
        ours: str,
        *,
        lingers: bool,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._cache = cache
        self._used = used
        self._ours = ours
        self._lingers = lingers

    async def reconcile(self, key: Key) -> Result:
        """Write the finalizers of an object if they must change; a refusal is an event, and tried again."""
        found = self._cache.get(key)
        if found is None:
            return Result.done()
        meta, used = found.metadata, self._used(key)
        wanted = finalizers(
            meta.finalizers, self._ours, used=used, deleting=meta.deleting, lingers=self._lingers
        )
        if wanted is None:
            if used and meta.deleting:
                why = Awaited(
                    "what uses it to go", "delete that, or have it use another", meta.deletion_timestamp
                )
                idle("it is being deleted, and in use", why)
            return Result.done()
        doing = "add" if used else "remove"
        message = partial(_not_in_full, f"{doing} the finalizer {self._ours}")
        return await unless_refused(self._write(found, wanted), found, self._recorder, message)

    def to_keys(self, change: Change[T]) -> Iterable[Key]:
        """The key of a change, if the finalizer may have to be written. Most Secrets have no user, ever.

        Users wake what they use themselves, when they come and go.
        """
        new = change.new
        return (change.key,) if new and (self._used(new.key) or self._ours in new.finalizers) else ()

    async def _write(self, found: T, wanted: list[str]) -> Result:
        key = Key(found.namespace, found.name)
        await self._client.patch(
            self._cache.kind, key, onto({"metadata": {"finalizers": wanted}}, found.metadata)
        )
        return Result.done()


def finalizers(
    present: Sequence[str], ours: str, *, used: bool, deleting: bool, lingers: bool
) -> list[str] | None:
    """The finalizers to write; None: nothing is to change.

    An object that is already being deleted takes no new finalizers. An object without users loses ours at
    once or, with ``lingers``, only when it is being deleted.
    """
    if used and not deleting and ours not in present:
        return with_finalizer(present, ours)
    if not used and (deleting or not lingers) and ours in present:
        return without_finalizer(present, ours)
    return None


def _not_in_full(doing: str, error: ApiError) -> str:
    """Not the server's own message: of a Secret that may quote its content."""
    return f"The API server refused to {doing}: {error.code} {error.reason}"
