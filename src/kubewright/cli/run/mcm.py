"""The switches of Gardener's machine-controller-manager and machine-controller, on ``kubewright run``.

Theory.      A user who replaces one of the two programs by Kubewright keeps its command line. Each of their
             switches is a row here: it sets a field of ``MachineSettings``, or it has nothing to set, and the
             row says why. A value that would ask for something that Kubewright does not do is refused, and
             the message names what to do instead. MCM's other switches, which Kubewright has as its own
             (``--namespace``, ``--port``, Leases, orphan VMs), are in ``switches``.
Invariants.  A switch has the name, the form and, unless the row says otherwise, the default of MCM.
             What is typed is checked before anything is connected to.
Source       docs/reference/switches.md.
Called by    ``app`` (as options of the command), ``command`` (as settings), ``tools/switches_page.py``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput

if TYPE_CHECKING:
    from kubewright.machines.settings import MachineSettings
    from kubewright.rollout.model import IntOrPercent


class Program(StrEnum):
    """Which program has the switch: one of MCM's two, both, or Kubewright alone."""

    BOTH = "both"
    SETS = "machine-controller-manager"
    MACHINES = "machine-controller"
    OURS = "Kubewright"


@dataclass(frozen=True, slots=True)
class Form:
    """How values are written: the placeholder in help, and the reader, which raises ValueError."""

    shown: str
    read: Callable[[str], Any]


def _duration(text: str) -> timedelta:
    found = parse_duration(text)
    if found.total_seconds() < 0:
        raise ValueError(f"{text!r} is negative")
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        raise ValueError(f"{text!r} is no whole number from 0 on")
    return int(text)


def _workers(text: str) -> int:
    if not (found := _count(text)):
        raise ValueError("0: at least one machine must be worked on at a time")
    return found


def _boolean(text: str) -> bool:
    words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if text.lower() not in words:
        raise ValueError(f"{text!r} is neither true nor false")
    return words[text.lower()]


def _limit(text: str) -> "IntOrPercent":
    from kubewright.machines.settings import parsed_limit

    return parsed_limit(text)


def _condition_types(text: str) -> tuple[str, ...]:
    from kubewright.api.machine.names import condition_list

    return condition_list(text)


def _groups(text: str) -> str:
    found = [each.strip() for each in text.split(",") if each.strip()]
    for each in found:
        if not _GROUP.fullmatch(each):
            raise ValueError(f"group {each!r} must begin with system:bootstrappers: and end with a-z or 0-9")
    return ",".join(found)


DEBUG = 4
"""From this level on, programs of Kubernetes log what helps to find a fault."""
_DIGITS = 9
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
"""What kube-apiserver accepts in ``auth-extra-groups`` of a bootstrap token."""

DURATION, COUNT, WORKERS = Form("DURATION", _duration), Form("N", _count), Form("N", _workers)
LIMIT, TEXT, BOOLEAN = Form("N|N%", _limit), Form("TEXT", str), Form("BOOL", _boolean)
CONDITIONS, GROUPS = Form("LIST", _condition_types), Form("LIST", _groups)


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch.

    ``setting``  the path of the field in ``MachineSettings`` that it sets
    ``unused``   why there is nothing to set; then any value of its form is accepted
    ``only``     the only values that are accepted, because others ask for what Kubewright does not do
    ``instead``  what to do instead, for the message about other values
    """

    name: str
    default: str
    form: Form
    help: str
    of: Program = Program.MACHINES
    setting: str = ""
    unused: str = ""
    only: tuple[str, ...] = ()
    instead: str = ""


D, N, T, BOTH = DURATION, COUNT, TEXT, Program.BOTH

SWITCHES: tuple[Switch, ...] = (
    Switch("machine-creation-timeout", "20m", D, "A machine that has not joined after so long is Failed.",
           setting="creation_timeout"),
    Switch("machine-health-timeout", "10m", D, "A machine that was Unknown for so long is Failed.",
           setting="health_timeout"),
    Switch("machine-drain-timeout", "2h", D, "After so long a drain deletes pods by force.",
           setting="drain_timeout"),
    Switch("machine-max-evict-retries", "360", N,
           "After so many refused evictions a pod is deleted; if not given, as many as fit into a drain.",
           setting="max_evict_retries"),
    Switch("machine-pv-detach-timeout", "2m", D, "How long a drain waits until a volume is detached.",
           setting="detach_timeout"),
    Switch("machine-pv-reattach-timeout", "90s", D, "How long it then waits for another node to get it.",
           setting="reattach_timeout"),
    Switch("machine-preserve-timeout", "96h", D, "How long a preserved Failed machine is kept.",
           setting="preserve_timeout"),
    Switch("resource-exhausted-retry", "10m", D, "When to ask a cloud again that has no more VMs of a class.",
           setting="resource_exhausted_retry"),
    Switch("machine-retry-all-errors", "true", BOOLEAN,
           "Whether all failed calls of a driver are tried again; false: some wait for a change.",
           Program.OURS, "retry_all_errors"),
    Switch("machine-forced-deletion-drains", "true", BOOLEAN,
           "Whether a forced deletion still ends the pods of the node; false: it skips the drain.",
           Program.OURS, "forced_deletion_drains"),
    Switch("node-conditions", "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable", CONDITIONS,
           "Conditions of a node that make its machine unhealthy; comma-separated.",
           setting="node_conditions"),
    Switch("bootstrap-token-auth-extra-groups", "", GROUPS,
           "Further groups of bootstrap tokens; comma-separated.",
           setting="token_groups"),
    Switch("machine-max-replacements", "1", LIMIT,
           "Machines of one deployment that are replaced for bad health at the same time.",
           Program.OURS, "replacement_limits.replacements"),
    Switch("machine-max-unhealthy", "100%", LIMIT,
           "While more machines than this are unhealthy, none of them is replaced.",
           Program.OURS, "replacement_limits.unhealthy"),
    Switch("concurrent-syncs", "100", WORKERS,
           "Machines that are worked on at once; 10 or 50 in MCM.", BOTH, "workers"),
    Switch("cloud-provider", "", T, "MCM does not read it either.", BOTH,
           unused="--driver names the cloud"),
    Switch("min-resync-period", "12h", D, "How often MCM looks at every object again.", BOTH,
           unused="every object is looked at again when it has something to wait for"),
    Switch("kube-api-content-type", "application/vnd.kubernetes.protobuf", T,
           "MCM does not use it either.", BOTH, unused="custom resources are JSON"),
    Switch("kube-api-qps", "20", T, "Requests a second of each of MCM's clients.", BOTH,
           unused="requests are as many as there is work; API servers limit them by priority and fairness"),
    Switch("kube-api-burst", "30", N, "How many of these requests may come at once.", BOTH,
           unused="see --kube-api-qps"),
    Switch("controller-start-interval", "0s", D, "MCM does not use it either.", BOTH,
           unused="controllers start together"),
    Switch("leader-elect-resource-lock", "leases", T, "The kind of object that elects the leader.", BOTH,
           only=("leases",), instead="Kubernetes has no other kind any more"),
    Switch("profiling", "false", BOOLEAN, "Whether profiles are served under /debug/pprof/, beside metrics.",
           BOTH),
    Switch("contention-profiling", "false", T, "Profiles of locks over HTTP.", BOTH, only=("false",),
           instead="one thread does all work, and waits for no lock"),
    Switch("v", "0", N, "Level of MCM's log; from 4 on it is that of --log-level debug.", BOTH),
    Switch("vmodule", "", T, "Levels of the log for single files of MCM.", BOTH,
           unused="--log-level sets the level for all"),
    Switch("log-flush-frequency", "5s", D, "How often MCM writes out its log.", BOTH,
           unused="each line is written at once"),
    Switch("machine-inplace-update-timeout", "20m", D, "How long an update in place may take.",
           setting="in_place_update_timeout"),
    Switch("safety-up", "2", N, "So many machines above replicas and surge freeze a set.", Program.SETS,
           "sets.safety_up"),
    Switch("safety-down", "1", N, "At so many machines fewer it is unfrozen.", Program.SETS,
           "sets.safety_down"),
    Switch("machine-safety-overshooting-period", "1m", D,
           "How often a frozen set is looked at, beside every change of its machines.", Program.SETS,
           "sets.overshooting_period"),
    Switch("machine-min-ready-seconds", "true", BOOLEAN,
           "Whether spec.minReadySeconds counts; MCM does not look at it.", Program.OURS,
           "sets.min_ready"),
    Switch("autoscaler-scaledown-annotation-during-rollout", "true", BOOLEAN,
           "Whether cluster-autoscaler leaves nodes alone during a rollout.", Program.SETS,
           "sets.spare_nodes"),
    Switch("machine-safety-apiserver-statuscheck-period", "1m", D,
           "How often MCM asks whether the API servers answer.",
           unused="watches tell at once; see --machine-safety-apiserver-statuscheck-timeout"),
)  # fmt: skip
"""All switches, in the order of the help."""

BY_NAME: Mapping[str, Switch] = {each.name: each for each in SWITCHES}


def settings(typed: Mapping[str, str], machine: "MachineSettings") -> "MachineSettings":
    """The settings with what the user typed, by the names of the switches.

    Raises:
        InvalidInput: a value does not have its form, or asks for what Kubewright does not do.
    """
    for name, text in typed.items():
        value = read(BY_NAME[name], text)
        if path := BY_NAME[name].setting:
            machine = _with(machine, path.split("."), value)
    return machine


def unused(typed: Mapping[str, str]) -> list[str]:
    """A sentence for each switch that the user typed and that sets nothing."""
    found = (BY_NAME[name] for name in typed)
    return [f"--{each.name} has no effect: {each.unused}" for each in found if each.unused]


def log_level(typed: Mapping[str, str], level: str) -> str:
    """The level of the log: that of ``--log-level``, or of ``--v``, which is more at most.

    Raises:
        InvalidInput: ``--v`` is no number.
    """
    return "debug" if read(BY_NAME["v"], typed.get("v", "0")) >= DEBUG else level


def profiling(typed: Mapping[str, str]) -> bool:
    """Whether profiles are served.

    Raises:
        InvalidInput: ``--profiling`` is neither true nor false.
    """
    return bool(read(BY_NAME["profiling"], typed.get("profiling", "false")))


def read(switch: Switch, text: str) -> Any:
    """The value of a switch.

    Raises:
        InvalidInput: as ``settings``.
    """
    if switch.only and text not in switch.only:
        raise InvalidInput(f"--{switch.name} {text!r}: only {', '.join(switch.only)}; {switch.instead}")
    try:
        return switch.form.read(text)
    except ValueError as error:
        raise InvalidInput(f"--{switch.name}: {error}") from None


def _with(settings: Any, path: list[str], value: Any) -> Any:
    first, *rest = path
    return replace(settings, **{first: _with(getattr(settings, first), rest, value) if rest else value})
