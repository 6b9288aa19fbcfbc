"""A server that speaks as much of the protocol of Amazon S3 as snapshots need, in this process."""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

KEY = "an-access-key"
REFUSED = "<Error><Code>{}</Code><Message>refused</Message></Error>"


class Buckets:
    """What is kept, by path; ``url`` is where the server listens.

    ``plain``    it takes no content in chunks with a checksum after them, as stores that are not Amazon's
    ``damages``  what arrives has another last byte
    ``breaks``   a download ends in the middle
    """

    def __init__(self, *, plain: bool = False, damages: bool = False, breaks: bool = False) -> None:
        self.kept: dict[str, bytes] = {}
        self.url = ""
        self._plain = plain
        self._damages = damages
        self._breaks = breaks

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if f"Credential={KEY}/" not in request.headers.get("Authorization", ""):
            return web.Response(status=403, text=REFUSED.format("AccessDenied"))
        path = request.path
        match request.method:
            case "PUT":
                if self._plain and (told := _not_implemented(request)):
                    return web.Response(status=501, text=REFUSED.format(told))
                content = _unwrapped(request, await request.read())
                content = content[:-1] + b"!" if self._damages else content
                digest = base64.b64encode(hashlib.md5(content).digest()).decode()
                if request.headers.get("Content-MD5", digest) != digest:
                    return web.Response(status=400, text=REFUSED.format("BadDigest"))
                self.kept[path] = content
                return web.Response(headers={"ETag": f'"{hashlib.md5(self.kept[path]).hexdigest()}"'})
            case "GET" if self._breaks:
                return await _broken(request)
            case "GET" if path in self.kept:
                return web.Response(body=self.kept[path])
            case "DELETE":
                self.kept.pop(path, None)
                return web.Response(status=204)
        return web.Response(status=404, text=REFUSED.format("NoSuchKey"))


async def _broken(request: web.Request) -> web.StreamResponse:
    """An answer whose connection ends before its content does."""
    answer = web.StreamResponse(headers={"Content-Length": "1000000"})
    await answer.prepare(request)
    await answer.write(b"the beginning")
    assert request.transport is not None
    request.transport.close()
    return answer


def _not_implemented(request: web.Request) -> str:
    """As a store answers that does not know these headers; it needs the length."""
    told = {name.lower(): value for name, value in request.headers.items()}
    chunked = "aws-chunked" in told.get("content-encoding", "") or "x-amz-trailer" in told
    chunked = chunked or told.get("x-amz-content-sha256", "").startswith("STREAMING")
    if chunked or any(name.startswith("x-amz-sdk-checksum") for name in told):
        return "NotImplemented"
    return "" if "content-length" in told else "MissingContentLength"


def _unwrapped(request: web.Request, body: bytes) -> bytes:
    """The content of a body that comes in signed chunks; others are what they are."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING"):
        return body
    found = b""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        found, body = found + body[:size], body[size + 2 :]
    return found


@asynccontextmanager
async def buckets(**options: bool) -> AsyncIterator[Buckets]:
    served = Buckets(**options)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", served.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()
