"""VMs whose boot fails: a command of the user data fails, or nothing can read it. Both say so long before their time is up."""

import asyncio
from typing import Any

from tests.vm import guests
from tests.vm.stage import Stage, embedded, main

MACHINES = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines"
BOOT_SECONDS, GRACE_SECONDS, GONE_SECONDS = 300, 180, 240
SHOWN = ("machines.machine.sapcloud.io", "nodes", "events")
FAILS = {
    "fails": (
        "#!/bin/sh\necho joining without a network >&2\nexit 7\n",
        "cloud-init failed in module scripts-user",
        "joining without a network",
    ),
    "unreadable": (
        "hello\n",
        "cloud-init cannot read the user data (Unhandled non-multipart)",
        "Unhandled non-multipart",
    ),
}
"""User data, what the machine says of it, and what is in the end of the console."""


async def life(stage: Stage) -> None:
    with stage.steps.step("two machines whose boots fail, which they say"):
        await stage.apply(*(each for name in FAILS for each in broken(name)))
        await stage.until("both to say so", BOOT_SECONDS, lambda: told(stage, "Pending", "has not joined"))
    with stage.steps.step("they are given up two minutes later, not after twenty"):
        await stage.until("both to fail", GRACE_SECONDS, lambda: told(stage, "Failed", "failed to join"))
    with stage.steps.step("all gone"):
        await asyncio.to_thread(
            stage.kubectl, "delete", "machines.machine.sapcloud.io", "--all", "--wait=false"
        )
        await stage.until("nothing left", GONE_SECONDS, lambda: nothing(stage))


def broken(name: str) -> list[Any]:
    """A machine with such user data, its class and its Secret."""
    meta = {"name": name, "namespace": "default"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "stringData": {"userData": FAILS[name][0]},
    }
    made = {**guests.machine_class(name, memory="512Mi"), "secretRef": meta}
    spec = {"class": {"kind": "MachineClass", "name": name}}
    machine = {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": {**meta, "labels": {"pool": name}},
        "spec": spec,
    }
    return [secret, made, machine]


async def told(stage: Stage, phase: str, words: str) -> bool:
    """Whether each machine is in this phase, and says why, with the end of its console."""
    machines = {each["metadata"]["name"]: each.get("status", {}) for each in await stage.items(MACHINES)}
    for name, (_, why, shown) in FAILS.items():
        status = machines.get(name) or {}
        operation = status.get("lastOperation", {})
        first, _, console = operation.get("description", "").partition("\n")
        if status.get("currentStatus", {}).get("phase") != phase or operation.get("state") != "Failed":
            return False
        assert first == f"Machine {name} {words} the cluster: {why}.", first
        assert shown in console, console
    return True


async def nothing(stage: Stage) -> bool:
    return not await stage.items(MACHINES) and not stage.qemus()


if __name__ == "__main__":
    main(embedded, life, SHOWN)
