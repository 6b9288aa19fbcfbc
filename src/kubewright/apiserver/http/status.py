"""What the server says of itself: health, version, counts.

``Counts`` is what ``make bench`` reads: requests are counted here, at the server, so that every
client is counted the same way.
"""

import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from kubewright import __version__
from kubewright.wire.http import Response

KUBERNETES = (1, 34)
"""The Kubernetes version whose API we speak, as ``kubectl version`` shows it."""

_TEXT = "text/plain; charset=utf-8"
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Call:
    """What requests are counted by; ``verb`` is GET, LIST, WATCH, POST, PUT, PATCH or DELETE."""

    verb: str
    group: str
    resource: str
    part: str
    code: int


class Counts:
    """Requests since the start."""

    def __init__(self) -> None:
        self._calls: Counter[Call] = Counter()

    def add(self, call: Call) -> None:
        self._calls[call] += 1

    def snapshot(self) -> dict[Call, int]:
        return dict(self._calls)

    def exposition(self) -> bytes:
        """The counts in Prometheus' text form, under kube-apiserver's name."""
        lines = [
            "# HELP apiserver_request_total Requests answered.",
            "# TYPE apiserver_request_total counter",
        ]
        for call, count in self._calls.items():
            labels = f'verb="{call.verb}",group="{call.group}",resource="{call.resource}"'
            lines.append(
                f'apiserver_request_total{{{labels},subresource="{call.part}",code="{call.code}"}} {count}'
            )
        return ("\n".join(lines) + "\n").encode()


def answer(path: str, counts: Counts, refusal: Callable[[], str]) -> Response | None:
    """The answer to a path of this module; None for all others. ``refusal``: why writes are refused."""
    if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/healthz/", "/livez/", "/readyz/")):
        why = refusal()
        return (
            Response(500, f"[-]store failed: {why}\n".encode(), _TEXT) if why else Response(200, b"ok", _TEXT)
        )
    if path == "/version":
        return Response(200, orjson.dumps(version()))
    if path == "/metrics":
        return Response(200, counts.exposition(), _TEXT)
    return None


def version() -> dict[str, str]:
    """The answer of ``/version``."""
    major, minor = KUBERNETES
    return {
        "major": f"{major}",
        "minor": f"{minor}",
        "gitVersion": f"v{major}.{minor}.0+kubewright-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": f"{platform.system().lower()}/{_GO_NAMES.get(platform.machine(), platform.machine())}",
    }
