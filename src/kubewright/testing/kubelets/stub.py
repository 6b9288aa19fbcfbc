"""A program to be run for a component in tests: it says what it was started with, and answers probes.

It is run as a file by an interpreter without site-packages, so it imports nothing of ours and little else.
Each start adds a line to ``<journal>/<instance>.jsonl``: its process, arguments, variables, and the files
below ``PKI_DIR``, by the SHA-256 of their content. Once it listens there is a file ``<instance>.up``. ``GET``
of any path answers 200, and 503 while there is a file ``<instance>.sick``. With ``--fail`` it ends with exit
code 3 at once.
"""

import hashlib
import json
import os
import signal
import socket
import sys

VARIABLES = ("INSTANCE", "HOST", "ADDRESS", "NAMESPACE", "PKI_DIR", "FILES_DIR", "DATA_DIR", "EXTRA")
ANSWERS = {True: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}
ANSWERS[False] = ANSWERS[True].replace(b"200 OK", b"503 Sick")


def main() -> None:
    flags = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:])
    if "fail" in flags:
        sys.exit(3)
    instance = os.path.join(flags["journal"], os.environ["INSTANCE"])
    generation = note_a_start(flags["data"])
    started = {
        "pid": os.getpid(),
        "generation": generation,
        "arguments": sys.argv[1:],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "files": files_below(os.environ["PKI_DIR"]),
    }
    with open(f"{instance}.jsonl", "a") as journal:
        journal.write(json.dumps(started) + "\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve(flags["listen"], instance)
    finally:
        os.unlink(f"{instance}.up")


def note_a_start(folder: str) -> int:
    """How many programs have had this data folder, with this one."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "starts")
    with open(path, "a") as file:
        file.write("x")
    return os.path.getsize(path)


def files_below(folder: str) -> dict[str, str]:
    found = {}
    for here, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(here, name), "rb") as file:
                path = os.path.relpath(file.name, folder)
                found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def serve(listen: str, instance: str) -> None:
    host, _, port = listen.rpartition(":")
    server = socket.create_server((host, int(port)))
    with open(f"{instance}.up", "w"):
        pass
    while True:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(1.0)
            try:
                connection.recv(4096)
                connection.sendall(ANSWERS[not os.path.exists(f"{instance}.sick")])
            except OSError:
                continue


if __name__ == "__main__":
    main()
