"""The script that joins a machine phase by phase, each phase with retries.

Theory.      ``useExperimentalRetryJoin`` asks for it. The field is deprecated upstream, since kubeadm itself
             retries what can be.
             Each phase is tried five times, fifteen seconds apart. What a user must mend (kubeadm's codes 2
             and 3: a failed check, an invalid document) is not tried again, and neither is joining etcd,
             which could add a second member. In the end the machine is reset, and there is no sentinel.
Invariants.  Pure. The phases are those that the kubeadm of this minor version has.
Source       capi.md §9.6; kubeadm's phases of 1.15 to 1.36.
Called by    ``userdata``.
"""

from kubewright.api.bootstrap.names import JOIN_FILE

SINGLE_PHASES = 31
"""From this minor version on, joining etcd and waiting for the kubelet are phases of their own."""

_SCRIPT = """\
#!/bin/bash
# Joins this machine to its cluster with kubeadm, phase by phase.
set -u
tries=5
pause=15

say() {{ echo "$(date --iso-8601=seconds) join: $*" >&2; }}

give_up() {{
  say "kubeadm join phase $2 failed with code $1; resetting"
  kubeadm reset -f || true
  exit "$1"
}}

phase() {{
  local left="$1" code=0
  shift
  while true; do
    say "kubeadm join phase $*"
    kubeadm join phase "$@" --config {path}{verbosity} && return 0
    code=$?
    left=$((left - 1))
    if [ "$code" -eq 2 ] || [ "$code" -eq 3 ] || [ "$left" -le 0 ]; then
      give_up "$code" "$*"
    fi
    sleep "$pause"
  done
}}

{phases}
say "joined"
"""


def join_script(minor: int, *, control_plane: bool, verbosity: int | None = None) -> str:
    """The script for a worker or a machine of the control plane."""
    lines = [_phase("preflight --ignore-preflight-errors=DirAvailable--etc-kubernetes-manifests")]
    if control_plane:
        lines.append(_phase("control-plane-prepare all"))
    lines.append(_phase("kubelet-start"))
    if minor >= SINGLE_PHASES:
        lines += [_phase("etcd-join", once=True)] if control_plane else []
        lines.append(_phase("kubelet-wait-bootstrap"))
    if control_plane:
        lines.append(_phase("control-plane-join all", once=minor < SINGLE_PHASES))
    flag = "" if verbosity is None else f" --v {verbosity}"
    return _SCRIPT.format(path=JOIN_FILE, verbosity=flag, phases="\n".join(lines))


def _phase(arguments: str, *, once: bool = False) -> str:
    tries = "1" if once else '"$tries"'
    return f"phase {tries} {arguments}"
