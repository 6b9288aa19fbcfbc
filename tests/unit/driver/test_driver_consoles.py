"""What is shown of a VM's console: its last lines, without what a terminal obeys and without secrets."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest

from kubewright.driver.answers import (
    CONSOLE_CHARS,
    CONSOLE_LINES,
    NOTHING_WRITTEN,
    boot_failure,
    console_end,
    in_one_line,
    with_console,
    without_console,
)
from kubewright.driver.contract import Consoles, MachineRequest, stub
from kubewright.driver.errors import Code, DriverError, Unimplemented
from kubewright.driver.guard import GuardedDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.scenes import class_request

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
CASES = {
    "lines end as a terminal's do": ("one\r\n\r\ntwo\rthree\n", "one\ntwo\nthree"),
    "colours and cursors are taken out": ("\x1b[0;1;31mFAILED\x1b[0m \x1b]0;title\x07to start\x1b[K", "FAILED to start"),
    "so are other control characters": ("a\x00b\x07c\x9bd\u202ee", "abcde"),
    "only the last lines": (
        "\n".join(f"line {each}" for each in range(100)),
        "\n".join(f"line {each}" for each in range(100 - CONSOLE_LINES, 100)),
    ),
    "a line without an end is cut": ("x" * 10_000, "x" * CONSOLE_CHARS),
    "a bootstrap token": (
        "kubeadm join 10.99.0.2:6443 --token abcdef.0123456789abcdef --discovery",
        "kubeadm join 10.99.0.2:6443 --token [hidden] --discovery",
    ),
    "the key of certificates": (
        "  --control-plane --certificate-key e6a2eb8581237ab72a4f494f",
        "  --control-plane --certificate-key [hidden]",
    ),
    "a private key": (f"before\n{KEY}\nafter", "before\n[hidden]\nafter"),
    "a private key whose end is still to come": ("before\n" + KEY[:40], "before\n[hidden]"),
    "a private key whose beginning is cut off": (KEY[40:] + "\nafter", "[hidden]\nafter"),
    "the token of an account": ("Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2lnbmF0dXJl x", "Bearer [hidden] x"),
    "a password": ("set Password: hunter2 now", "set Password: [hidden] now"),
    "a password in JSON": ('{"password": "hunter 2", "user": "a"}', '{"password": [hidden], "user": "a"}'),
    "a key with colours in between": ("-----BEGIN \x1b[1mRSA PRIVATE\x07 KEY-----\nMIIEow", "[hidden]"),
    "what lies in the middle of a key": (f"{'MIIEow4+' * 8}\n{'IBAAKC/0' * 8}", "[hidden]\n[hidden]"),
    "a key in one word": (f"client-key-data: {'LS0tLS1C' * 20}==", "client-key-data: [hidden]"),
    "the name of an image stays": (f"pulled a@sha256:{'0a' * 32}", f"pulled a@sha256:{'0a' * 32}"),
    "a title without an end ends with its line": ("\x1b]0;booting\nwhy it failed", "why it failed"),
    "what only looks like a token stays": ("kernel 6.1.0-28.cloud-amd64", "kernel 6.1.0-28.cloud-amd64"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), CASES.values(), ids=CASES.keys())
def test_what_is_shown_of_a_console(text: str, shown: str) -> None:
    assert console_end(text) == shown


RECORDED = Path(__file__).with_name("consoles")
"""Ends of consoles of VMs, as they were: Debian 12 with cloud-init 22.4.2, some of them with kubeadm."""
SCRIPTS = "cloud-init failed in module scripts-user"
BOOTS = {
    "commands of the user data failed": (
        "[ 9.1] cloud-init[9]: 2026-01-01 00:00:00,000 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts)",
        SCRIPTS,
    ),
    "and a later one": (
        "cloud-init[9]: 2026-01-01 00:00:00,000 - log_util.py[WARNING]: Running module scripts_user (<module 'x'>) failed",
        "cloud-init failed in module scripts_user",
    ),
    "a module that does not run the user data": (
        "cloud-init[9]: 2026-01-01 00:00:00,000 - util.py[WARNING]: Running module ntp (<module 'x'>) failed",
        "",
    ),
    "user data of no known kind": (
        "cloud-init[9]: 2026-01-01 00:00:00,000 - __init__.py[WARNING]: Unhandled non-multipart (text/x-not-multipart) userdata: 'b'hi''",
        "cloud-init cannot read the user data (Unhandled non-multipart)",
    ),
    "user data that is no YAML": (
        'cloud-init[9]: 2026-01-01 00:00:00,000 - util.py[WARNING]: Failed loading yaml blob. Invalid format at line 2',
        "cloud-init cannot read the user data (Failed loading yaml blob)",
    ),
    "a kernel without a root": (
        "[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
        "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
    ),
    "a VM that is off": ("booting\nthe VM is off: QEMU ended by itself", "it is off: QEMU ended by itself"),
    "the first cause counts": ("you\nKernel panic - not syncing: no\nthe VM is off: ended", "Kernel panic - not syncing: no"),
    "the next boot begins anew": ("Kernel panic - not syncing: no\n[    0.0] Linux version 6.1.0-28", ""),
    "also in words of cloud-init": ("Kernel panic - not syncing: no\nCloud-init v. 22.4.2 running 'init-local' at", ""),
    "a boot that goes on": ("[  OK  ] Started kubelet.service\nCloud-init v. 22.4.2 finished at Fri", ""),
    "nothing": ("", ""),
    "commands that quote a panic": ("[ 9.1] cloud-init[9]: + grep 'Kernel panic - not syncing: ' /var/log/messages", ""),
    "a level in brackets before the quotation": ("cloud-init[9]: [INFO] Kernel panic - not syncing: none", ""),
    "commands that tell of emergencies": ("cloud-init[9]: # If You are in emergency mode, call us", ""),
    "commands that tell of Ignition": ("[ 9.1] cloud-init[9]: when Ignition has failed, read this", ""),
    "another program in Python": ("cloud-init[9]: app.py[INFO]: Failed to run module runcmd", ""),
    "what cloud-init says below a warning": ("00:00:00,000 - util.py[DEBUG]: Running module runcmd (x) has not failed", ""),
    "a guest that says it is off": ("the VM is off: he said\n[  OK  ] Started kubelet.service", ""),
    "half of the line": ("2026-01-01 00:00:00,000 - cc_scripts_user.py[WARNING]: Failed to run module scripts", ""),
    "commands that show the version of the kernel after it": (
        "00:00:00,000 - cc_runcmd.py[WARNING]: Failed to run module runcmd (x)\ncloud-init[9]: Linux version 6.1.0-28",
        "cloud-init failed in module runcmd",
    ),
    "a panic behind a prompt": ("m1 login: [  2.1][    T1] Kernel panic - not syncing: no", "Kernel panic - not syncing: no"),
    "a cause behind a line without an end": (
        "x" * 9_000 + "[ 1.2] Kernel panic - not syncing: no" + "\ny" * 90, "Kernel panic - not syncing: no"
    ),
    "a cause before a line without an end": ("Kernel panic - not syncing: no\n" + "x" * 60_000, "Kernel panic - not syncing: no"),
    "bytes of no text in between": (
        "\x00\ud800\ufffd\nKernel\x00 panic\x07 - not syncing: no\n" + "\ufffd\x01\r" * 9_000, "Kernel panic - not syncing: no"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), BOOTS.values(), ids=BOOTS.keys())
def test_why_a_boot_came_to_nothing(text: str, why: str) -> None:
    assert boot_failure(console_end(text)) == why


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("join-failed", SCRIPTS),
        ("init-failed", SCRIPTS),
        ("fails", SCRIPTS),
        ("unreadable", "cloud-init cannot read the user data (Unhandled non-multipart)"),
        ("joined", ""),
    ],
)
def test_why_a_recorded_boot_came_to_nothing(name: str, why: str) -> None:
    assert boot_failure(console_end((RECORDED / f"{name}.txt").read_text())) == why


def test_the_line_with_the_cause_stays_above_what_a_vm_writes_after_it() -> None:
    cause, after = BOOTS["commands of the user data failed"][0], [f"ssh-ed25519 {each}" for each in range(90)]
    end = console_end("\n".join((cause, *after))).split("\n")
    assert end == [cause, "...", *after[-CONSOLE_LINES:]]


def test_a_cause_and_long_lines_after_it_are_bounded() -> None:
    cause = BOOTS["commands of the user data failed"][0] + "x" * 9_000
    end = console_end("\n".join((cause, *["y" * 500] * 90)))
    assert len(end) <= CONSOLE_CHARS
    assert boot_failure(end) == SCRIPTS


@pytest.mark.parametrize("piece", [
    "00:00:00,000 - x.py[WARNING]: Running module runcmd ", "Kernel panic - not syncing: ", "\x1b[", "-----BEGIN ",
    "password = '", "a\n", "[ 1.1]", "[", "1.", "eyJaaaaaaaa.", "abcdef.0123456789abcde",
])  # fmt: skip
def test_a_guest_that_writes_the_same_for_ever_is_shown_in_bounded_size_and_time(piece: str) -> None:
    text, begun = piece * (1024 * 1024 // len(piece)), process_time()
    assert len(console_end(text)) <= CONSOLE_CHARS
    assert process_time() - begun < 1, "of 1 MiB, of which 64 KiB are read"


async def test_a_console_that_is_empty_is_one_all_the_same() -> None:
    assert await asked(Cloud("")) == NOTHING_WRITTEN


def test_a_message_and_the_console_below_it_can_be_told_apart_again() -> None:
    told = with_console("It failed.", "one\ntwo")
    assert without_console(told) == ("It failed.", ("one", "two"))
    assert in_one_line(told) == "It failed. Its VM's console ends with: two"
    assert in_one_line(with_console("It failed.", "")) == "It failed."


class Cloud:
    """It shows a console, whatever that is."""

    def __init__(self, shows: object) -> None:
        self.shows = shows

    async def console(self, _request: MachineRequest) -> object:
        return self.shows


async def asked(cloud: Any) -> str:
    return await GuardedDriver(cloud, LoopClock()).console(class_request("small").of(stub("m1", "ns")))


async def test_what_a_driver_shows_is_bounded_and_without_secrets() -> None:
    assert isinstance(Cloud(""), Consoles)
    assert await asked(Cloud("a\n--token abcdef.0123456789abcdef")) == "a\n--token [hidden]"


async def test_a_driver_that_shows_no_text_is_a_broken_one() -> None:
    with pytest.raises(DriverError) as raised:
        await asked(Cloud(None))
    assert raised.value.code is Code.Internal


async def test_a_driver_without_consoles_says_so() -> None:
    with pytest.raises(Unimplemented):
        await asked(object())
