"""gRPC in a process that starts other programs: it says nothing of them."""

import subprocess
import sys

STARTS_A_PROGRAM_WHILE_IT_LISTENS = """
import asyncio, subprocess, sys
import kubewright.providers.grpc.dispatch, grpc

async def main():
    server = grpc.aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, preexec_fn=lambda: None)
    await server.stop(0)

asyncio.run(main())
"""


def test_a_program_is_started_without_a_line_of_grpc_about_it() -> None:
    command = [sys.executable, "-c", STARTS_A_PROGRAM_WHILE_IT_LISTENS]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env={})
    assert ran.stderr == ""
