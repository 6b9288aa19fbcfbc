"""The address at which a data folder is served: kept in the folder, so that it stays after a restart.

Theory.      A copied kubeconfig, and a client that keeps running, know one port. The first start
             picks it, and later starts use it again.
Files        ``up.json`` in the data folder, mode 0600.
Called by    ``embedded``, which keeps it, and ``standing``, which shows it.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from kubewright.apiserver.http.private_file import write_private
from kubewright.base.errors import InvalidInput

FILE = "up.json"


@dataclass(frozen=True, slots=True)
class Address:
    """``url`` is the API server's, ``kubeconfig`` its kubeconfig (absolute), ``since`` the last start."""

    port: int
    url: str
    kubeconfig: str
    since: datetime


def remember(data_dir: Path, address: Address) -> None:
    """Write the address to ``up.json``, for the next start.

    Raises:
        InvalidInput: the folder cannot be written.
    """
    write_private(data_dir / FILE, msgspec.json.encode(address) + b"\n")


def recall(data_dir: Path) -> Address | None:
    """The address of the last start; None when the folder has none.

    Raises:
        InvalidInput: the file is damaged or cannot be read.
    """
    path = data_dir / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Address)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{path} is damaged ({error}); delete it, and `up` picks a new port") from None
    if not 0 < found.port <= 65535:
        raise InvalidInput(f"{path} is damaged (port {found.port}); delete it, and `up` picks a new port")
    return found
