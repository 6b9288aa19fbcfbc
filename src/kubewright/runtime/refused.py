"""What becomes of a write that the API server refuses for good: users are told, and the object waits.

Theory.      A refusal (a missing role, a webhook, a rule of validation) does not end by itself in seconds,
             and is no failure of the controller: backing off from it would hide it, and trying at once would
             be a hot loop. So it is an event on the object, and the pass is tried again after a pause.
Called by    ``kernel``, and reconcilers without a better place for it, such as a condition.
"""

from collections.abc import Awaitable, Callable

import structlog

from kubewright.api.meta import KubeObject, Object
from kubewright.base import delays
from kubewright.kube.patches import Contested
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.passes import failed
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal

REASON = "FailedUpdate"
"""Of the event."""

log = structlog.get_logger(__name__)


def in_full(error: ApiError) -> str:
    """The message for users. Not for writes to Secrets: the server's own words may quote their content."""
    return f"The API server refused a write: {error.message}"


async def unless_refused(
    work: Awaitable[Result],
    about: KubeObject,
    recorder: EventRecorder,
    message: Callable[[ApiError], str] = in_full,
) -> Result:
    """The result of ``work``; where one of its writes is refused, a pause after which the next pass comes.

    Raises:
        ApiError: the API server said no for now.
    """
    try:
        return await work
    except ApiError as error:
        if not is_refusal(error):
            raise
        return tell(error, about, recorder, message(error))


def tell(error: ApiError, about: Object, recorder: EventRecorder, said: str) -> Result:
    """Tell users that a write is refused, as is said; the pause after which the next pass comes."""
    if isinstance(error, Contested):  # it is told where the write was withheld
        failed(error.message)
        return Result.later(error.wait)
    log.warning("refused", object=f"{about.metadata.namespace}/{about.metadata.name}", problem=said)
    recorder.event(about, REASON, said, warning=True)
    failed(said)
    return Result.later(delays.REFUSED)
