"""Health, version and request counts of the server.

``make bench`` reads ``Counts``: the server counts the requests, so that every client's are counted in the
same way.
"""

import platform
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from kubewright import __version__
from kubewright.wire.http import Response
from kubewright.wire.release import KUBERNETES, version_of

CLIENTS = 100
"""How many client programs are counted by name."""

_CLIENT = re.compile(r"[\w.-]+")
_TEXT = "text/plain; charset=utf-8"
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Call:
    """The labels of one count; ``verb`` is GET, LIST, WATCH, POST, PUT, PATCH or DELETE."""

    verb: str
    group: str
    resource: str
    subresource: str
    code: int


class Counts:
    """Requests since the start, by ``Call`` and by client program (its user agent up to the first ``/``)."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[Call, str]] = Counter()
        self._clients: set[str] = set()
        self.beside: list[Callable[[], bytes]] = []
        """What else is shown, in Prometheus' text form: the numbers of what runs in the same process."""

    def add(self, call: Call, user_agent: str = "") -> None:
        """Count a request; programs beyond the first ``CLIENTS`` count as ``other``."""
        client = "".join(_CLIENT.findall(user_agent.partition("/")[0]))[:32]
        if client not in self._clients:
            client = client if len(self._clients) < CLIENTS else "other"
            self._clients.add(client)
        self._calls[call, client] += 1

    def exposition(self) -> bytes:
        """The counts in Prometheus' text form, under kube-apiserver's name."""
        lines = [
            "# HELP apiserver_request_total Requests answered.",
            "# TYPE apiserver_request_total counter",
        ]
        for (call, client), count in self._calls.items():
            labels = f'verb="{call.verb}",group="{call.group}",resource="{call.resource}"'
            labels = f'{labels},subresource="{call.subresource}",code="{call.code}",client="{client}"'
            lines.append(f"apiserver_request_total{{{labels}}} {count}")
        return b"".join((("\n".join(lines) + "\n").encode(), *(each() for each in self.beside)))


def answer(path: str, counts: Counts, refusal: Callable[[], str]) -> Response | None:
    """The answer to GET of ``path``; None for other paths. ``refusal``: why the store refuses writes."""
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
    major, minor, _patch = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version_of(__version__),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "cpython",
        "platform": f"{platform.system().lower()}/{_GO_NAMES.get(platform.machine(), platform.machine())}",
    }
