"""Where drivers dial, and who may: the options of driver ``grpc``. Pure.

Theory.      Secrets pass over the connection, so by default there is no network in it: a Unix socket in the
             data folder, which none but this user can open. Where a network is needed both sides show a
             certificate. A port that any process of the network may dial, in plain text, is what MCM had in
             2018; it is served only if a switch says what that means.
Invariants.  What cannot be served is refused at the start, with the option that is wrong.
Called by    ``kubewright.providers.grpc``; ``server``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput

PORT = 5000
"""Where MCM listened."""
SOCKET = "drivers.sock"
FOLDER = "grpc"
UNIX = "unix:"
SOCKET_PATH_BYTES = 107
"""The kernel's limit for the path of a Unix socket."""
PLAIN = "secrets-can-be-read"
"""What the option ``plaintext`` has to say."""
TLS = ("certificate", "key", "clientAuthorities")
KNOWN = ("listen", *TLS, "clients", "plaintext")


@dataclass(frozen=True, slots=True)
class Options:
    """``socket`` None: ``host`` and ``port``. ``clients``: names in certificates that may come; none: all.

    ``certificate``, ``key``, ``authorities``  files; None only for a socket, or in plain text.
    """

    socket: Path | None = None
    host: str = ""
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None
    clients: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        """As gRPC reads it."""
        if self.socket is not None:
            return f"{UNIX}{self.socket}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_options(given: Mapping[str, str], data_dir: Path | None) -> Options:
    """The options that an administrator gave.

    Raises:
        InvalidInput: an option is unknown or wrong, or others are missing.
    """
    if unknown := sorted(set(given) - set(KNOWN)):
        raise InvalidInput(f"driver grpc has no option {', '.join(unknown)}; it has {', '.join(KNOWN)}")
    listen = given.get("listen", "")
    if not listen or listen.startswith(UNIX):
        return _socket(listen.removeprefix(UNIX), given, data_dir)
    host, port = _host_and_port(listen)
    missing = [name for name in TLS if not given.get(name)]
    plain = given.get("plaintext", "")
    if plain and len(missing) < len(TLS):
        raise InvalidInput("driver grpc: plaintext and certificates contradict each other; leave one out")
    if plain == PLAIN:
        return Options(host=host, port=port)
    if plain:
        raise InvalidInput(f"driver grpc: plaintext wants the word {PLAIN}, not {plain!r}")
    if missing:
        raise InvalidInput(
            f"driver grpc: to listen at {listen} it needs the driver options {', '.join(missing)}; without "
            f"certificates any process that reaches the port gets the secrets (plaintext={PLAIN} allows it)"
        )
    clients = frozenset(each.strip() for each in given.get("clients", "").split(",") if each.strip())
    files = [Path(given[name]) for name in TLS]
    for name, path in zip(TLS, files, strict=True):
        if not path.is_file():
            raise InvalidInput(f"driver grpc: {name}: there is no file {path}")
    certificate, key, authorities = files
    return Options(None, host, port, certificate, key, authorities, clients)


def _socket(path: str, given: Mapping[str, str], data_dir: Path | None) -> Options:
    if beside := sorted(set(given) - {"listen"}):
        raise InvalidInput(f"driver grpc: {', '.join(beside)} goes with listen=HOST:PORT")
    if not path and data_dir is None:
        raise InvalidInput(
            "driver grpc has its socket in a folder: name one (--driver-option dataDir=DIR), or the socket "
            "(--driver-option listen=unix:PATH)"
        )
    found = Path(path) if path else (data_dir or Path()) / FOLDER / SOCKET
    found = found.absolute()
    if (length := len(str(found).encode())) > SOCKET_PATH_BYTES:
        raise InvalidInput(
            f"driver grpc: the path of a socket has at most {SOCKET_PATH_BYTES} bytes, and {found} has "
            f"{length}"
        )
    return Options(socket=found)


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon:
        host, port = listen, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(f"driver grpc: listen wants unix:PATH or HOST:PORT, not {listen!r}")
    return host, int(port)
