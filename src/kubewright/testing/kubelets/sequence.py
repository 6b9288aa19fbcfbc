"""A program that stands for a pod that is done once: it runs what the containers run, one after another.

It is run as a file by an interpreter without site-packages. Its arguments are a file, and the steps as JSON:
name, arguments and environment of each. The file says how far it is: ``step`` is the one that runs or ran
last, ``code`` its exit code if it has failed; ``step`` is empty when all have succeeded. Then it waits to be
ended, so that its supervisor does not start it again.
"""

import json
import os
import signal
import subprocess
import sys


def main() -> None:
    outcome, steps = sys.argv[1], json.loads(sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for step in steps:
        say(outcome, step["name"])
        with subprocess.Popen(step["argv"], env=step["env"]) as process:
            try:
                code = process.wait()
            except SystemExit:
                process.terminate()
                raise
        if code:
            say(outcome, step["name"], code)
            break
    else:
        say(outcome, "")
    while True:
        signal.pause()


def say(outcome: str, step: str, code: int = 0) -> None:
    with open(f"{outcome}.new", "w") as file:
        json.dump({"step": step, "code": code}, file)
    os.replace(f"{outcome}.new", outcome)


if __name__ == "__main__":
    main()
