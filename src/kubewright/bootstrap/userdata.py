"""What a machine's data is made of, in both formats: files, the document for kubeadm, the command.

Theory.      A KubeadmConfig becomes a ``UserData``: every Secret that it names is read, its certificates are
             files, kubeadm's document is text. ``cloudinit`` and ``ignition`` write that in two forms.
             Where ``useExperimentalRetryJoin`` asks for it, a script joins phase by phase. The field is
             deprecated upstream, since kubeadm itself retries what can be. Each phase is tried five times,
             fifteen seconds apart. What a user must mend (kubeadm's codes 2 and 3: a failed check, an invalid
             document) is not tried again, and neither is joining etcd, which could add a second member. In
             the end the machine is reset, and there is no sentinel.
Invariants.  Pure. Certificates come first, then the files of the spec, then what is made here. The phases are
             those that the kubeadm of this minor version has.
             A ``UserData`` holds keys and tokens: its ``repr`` shows none of them.
Called by    ``generation``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kubewright.api.bootstrap import names
from kubewright.api.bootstrap.names import JOIN_FILE
from kubewright.api.bootstrap.v1beta1 import File, KubeadmConfigSpec, User
from kubewright.api.cluster.names import SENTINEL_FILE

ROOT = "root:root"


class Role(StrEnum):
    """How a machine becomes part of its cluster; the value names it for people."""

    INIT = "first control plane machine"
    JOIN_CONTROL_PLANE = "control plane machine"
    JOIN_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class UserData:
    """All that stands in the data of one machine.

    ``minor``     the minor version of its Kubernetes, by which kubeadm's phases are called
    ``document``  what kubeadm reads
    ``files``     certificates, then the files of the spec, with their content
    ``users``     those of the spec, with their passwords' hashes
    """

    role: Role
    minor: int
    document: str = field(repr=False)
    spec: KubeadmConfigSpec
    files: tuple[File, ...] = ()
    users: tuple[User, ...] = ()

    @property
    def document_path(self) -> str:
        """Where kubeadm's document stands on a machine that boots from cloud-config."""
        return names.INIT_FILE if self.role is Role.INIT else names.JOIN_FILE

    def kubeadm(self, path: str) -> str:
        """The command that makes the machine a node, with its document at ``path``."""
        verb = "init" if self.role is Role.INIT else "join"
        verbosity = self.spec.verbosity
        return f"kubeadm {verb} --config {path}" + (f" --v {verbosity}" if verbosity is not None else "")

    @property
    def retries(self) -> bool:
        """Whether a script joins phase by phase; the first machine has none to join."""
        return self.spec.use_experimental_retry_join and self.role is not Role.INIT


def written_files(data: UserData) -> Iterable[File]:
    """Every file of the cloud-init form, in order."""
    yield from data.files
    if data.retries:
        script = join_script(
            data.minor, control_plane=data.role is Role.JOIN_CONTROL_PLANE, verbosity=data.spec.verbosity
        )
        yield File(path=names.JOIN_SCRIPT, owner="root", permissions="0755", content=script)
    yield File(path=data.document_path, owner=ROOT, permissions="0640", content=data.document)
    yield File(
        path=names.PLACEHOLDER,
        owner=ROOT,
        permissions="0640",
        content="Makes the folder of this file, on Linux and on Windows.",
    )


def commands(data: UserData) -> list[str]:
    """Every command of the cloud-init form, in order. The sentinel is written only if kubeadm succeeded."""
    join = names.JOIN_SCRIPT if data.retries else data.kubeadm(data.document_path)
    spec = data.spec
    return [
        *spec.pre_kubeadm_commands,
        f"{join} && echo success > {SENTINEL_FILE}",
        *spec.post_kubeadm_commands,
    ]


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
