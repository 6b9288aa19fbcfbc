"""The HTTPS server of the webhooks: a POST with an AdmissionReview, an answer within milliseconds.

Theory.      An API server keeps its connections, and sends the reviews of many writes at once. An answer is
             a function of the body, so it needs no cache, no client and no leadership. The certificate can
             be replaced while connections are open: those go on, and each new handshake shows the new one.
Invariants.  Nothing is served before there is a certificate. Every client that reaches the port may ask: an
             API server shows no credentials here. So an answer tells only what was sent; and the size of a
             body, the time for it, and the number of bodies in memory are bounded, and so is the number of
             connections (``runtime.accepting``). No object is logged.
Called by    ``compose.webhooks``. What is answered: ``api.webhooks.review``.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterable

import msgspec
import structlog
from aiohttp import web

from kubewright.api.webhooks.review import Webhook, reviewed
from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import BODY_BYTES
from kubewright.pki import tls
from kubewright.pki.certificates import Identity
from kubewright.runtime.accepting import IDLE_SECONDS, Accepting
from kubewright.runtime.metrics import Metrics
from kubewright.wire.errors import (
    ApiError,
    BadRequest,
    MethodNotAllowed,
    ServerError,
    TooLarge,
    TooManyRequests,
    to_status,
)
from kubewright.wire.http import JSON

REVIEW_BYTES = 2 * BODY_BYTES + 1024 * 1024
"""The largest body: an object as it is and as it was, and what stands around them."""

ANSWER_SECONDS = 10.0
"""The longest time for one request, where the API server names none."""

BODIES, WAITING = 16, 400
"""Bodies in memory at one time, and requests that wait for their turn."""

GRACE = 2.0
"""For a client that stops in the middle of a request when we end."""

log = structlog.get_logger("kubewright.webhooks")
_quiet = logging.getLogger("kubewright.webhooks.http")
_quiet.addHandler(logging.NullHandler())  # what a client did wrong; our own mistakes are logged below
_quiet.propagate = False


class WebhookServer:
    """Serves from the first ``present`` until ``run`` is cancelled. No ``host``: on all addresses."""

    def __init__(self, webhooks: Iterable[Webhook], *, host: str, port: int, metrics: Metrics) -> None:
        self.host, self.port = host, port
        self.listening = asyncio.Event()
        self._webhooks = {each.path: each for each in webhooks}
        self._context: ssl.SSLContext | None = None
        self._ready = asyncio.Event()
        self._turn = asyncio.Semaphore(BODIES)
        self._in_progress = 0
        self._requests = metrics.counter(
            "webhook_requests_total",
            "AdmissionReviews by webhook and answer: allowed, refused, or the code of an error",
            ("webhook", "answer"),
        )

    def present(self, identity: Identity) -> None:
        """Show this certificate in each handshake from now on."""
        if self._context is None:
            self._context = tls.server()
            self._context.set_alpn_protocols(["http/1.1"])
        identity.load_into(self._context)
        self._ready.set()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            InvalidInput: the address cannot be listened on.
        """
        await self._ready.wait()
        accepting = Accepting("webhooks")
        app = web.Application(client_max_size=REVIEW_BYTES, middlewares=[accepting.marks])
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_quiet,
            keepalive_timeout=IDLE_SECONDS,
            shutdown_timeout=GRACE,
            auto_decompress=False,
        )
        await runner.setup()
        assert runner.server is not None
        try:
            listening = await self._listen(accepting)
            self.listening.set()
            await accepting.serve(listening, runner.server, self._context)
        finally:
            await runner.cleanup()

    async def _listen(self, accepting: Accepting) -> list[socket.socket]:
        try:
            found = await accepting.listen(self.host, self.port)
        except OSError as error:
            reason = error.strerror or str(error)
            where = f"{self.host or '*'}:{self.port}"
            raise InvalidInput(f"cannot serve webhooks on {where}: {reason}") from None
        self.port = int(found[0].getsockname()[1])
        log.info("webhooks are served", port=self.port, webhooks=len(self._webhooks))
        return found

    async def _serve(self, http: web.Request) -> web.Response:
        known = self._webhooks.get(http.path)
        name = known.name if known else ""
        try:
            code, answer, body = 200, *await self._answer(http)
        except ApiError as error:
            code, answer, body = error.code, str(error.code), msgspec.json.encode(to_status(error))
            log.warning("a review cannot be answered", path=http.path, why=error.message)
        self._requests.labels(name, answer).inc()
        return web.Response(status=code, body=body, content_type=JSON)

    async def _answer(self, http: web.Request) -> tuple[str, bytes]:
        """How the review ended, and the body.

        Raises:
            ApiError: it cannot be answered.
        """
        if http.method != "POST":
            raise MethodNotAllowed("an AdmissionReview is sent by POST")
        if self._in_progress >= WAITING:
            raise TooManyRequests("too many reviews at one time", retry_after=1)
        self._in_progress += 1
        try:
            async with asyncio.timeout(_seconds(http)), self._turn:
                found = reviewed(self._webhooks, http.path, await _body(http))
        except TimeoutError:
            raise ServerError("the review did not arrive in time", code=504, reason="Timeout") from None
        except ApiError:
            raise
        except Exception:
            log.exception("a review failed that should not have", path=http.path)
            raise ServerError("this is a defect of the webhook, and its log says more") from None
        finally:
            self._in_progress -= 1
        return "allowed" if found.allowed else "refused", found.body


def _seconds(http: web.Request) -> float:
    """How long the API server waits: it says so in the query."""
    try:
        asked = parse_duration(http.query.get("timeout", "")).total_seconds()
    except ValueError:
        return ANSWER_SECONDS
    return min(max(asked, 0.0), ANSWER_SECONDS)


async def _body(http: web.Request) -> bytes:
    """The whole body.

    Raises:
        ApiError: it is too large, is compressed, or ends early.
    """
    if http.headers.get("content-encoding", "identity") != "identity":
        raise BadRequest("a review must not be compressed")
    try:
        return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"a review may have {REVIEW_BYTES} bytes") from None
    except web.RequestPayloadError:
        raise BadRequest("the body is not what its headers announce") from None
