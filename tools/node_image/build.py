"""What ``make node-image`` runs: a disk from which a VM becomes a Kubernetes node, from packages alone.

Theory.      Debian's packages are put together by mmdebstrap, without root where this user has subordinate
             ids; our files, and kubelet and kubeadm as ``make kube`` builds them, are laid over them; mke2fs
             makes the disk of that tree without mounting anything. Kernel and initrd stay beside it: a VM
             boots them directly. What the image holds follows from the inputs, and so does the name of its
             folder in the cache: a run that finds it does nothing.
             Two releases of Kubernetes are in it. Which one a VM is, it is told by its metadata; a unit puts
             that one's kubelet and kubeadm in their places before anything starts them.
             A VM that is to wait for its seed (``guest/warm``) does so with containerd running and with what
             cloud-init needs loaded, before cloud-init's first stage.
Invariants.  A folder in the cache is complete from its first moment. Nothing here needs a network but that of
             Debian's packages. No key, no machine id and no host name is in the image.
Needs        mmdebstrap, mke2fs and tar (Debian: mmdebstrap, e2fsprogs, tar), qemu-img (qemu-utils); who is
             not root: newuidmap (uidmap) and lines in /etc/subuid and /etc/subgid.
Called by    the Makefile. For people: docs/reference/qemu.md.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import oci

from kubewright.base.clock import SystemClock
from kubewright.testing.real_kubernetes.binaries import VERSION, cache_folder

HERE = Path(__file__).parent
KUBE = HERE.parent / "kube"
SUITE = "bookworm"
PACKAGES = (
    "systemd", "systemd-sysv", "systemd-resolved", "udev", "dbus", "cloud-init", "ca-certificates",
    "busybox-static", "containerd", "runc", "containernetworking-plugins", "conntrack", "curl", "ethtool",
    "iproute2", "iptables", "iputils-ping", "kmod", "mount", "netbase", "procps", "socat",
)  # fmt: skip
KERNEL = {"x86_64": "linux-image-cloud-amd64", "aarch64": "linux-image-cloud-arm64"}
PAUSE = "registry.k8s.io/pause:3.10.2"
"""What kubelet and kubeadm 1.36 call it, and containerd for all."""
BUSYBOX = "docker.io/kubewright/busybox:1"
"""Debian's busybox as an image, to try a node with."""
COMPONENTS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
"""What ``kubeadm init`` runs in pods, and the package of each."""
SIZE_MIB = 4000
SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kubernetes, and the folder of the modules that it is built from."""

    version: str
    modules: Path

    @property
    def stamp(self) -> str:
        """What tells its programs their version."""
        prefix = "k8s.io/component-base/version.git"
        major, minor, _ = self.version.removeprefix("v").split(".")
        return f"-X {prefix}Version={self.version} -X {prefix}Major={major} -X {prefix}Minor={minor}"


RELEASES = (Release("v1.35.4", KUBE / "1.35"), Release(VERSION, KUBE))
"""The newest is the last: it is what a VM runs that is not told a version."""


def _guest(name: str) -> tuple[str, int]:
    """A program for the guest, from the folder beside this file."""
    return (HERE / "guest" / name).read_text(), 0o755


def _stage(words: str) -> tuple[str, int]:
    return f"[Service]\nExecStart=\nExecStart=/usr/lib/kubewright/stage /run/kubewright {words}\n", 0o644


FILES: Mapping[str, tuple[str, int]] = {
    "etc/cloud/cloud.cfg.d/99_kubewright.cfg": (
        "datasource_list: [NoCloud, None]\nmanage_etc_hosts: true\npreserve_hostname: false\n"
        "cloud_init_modules: [bootcmd, write-files, growpart, resizefs, disk_setup, mounts, set_hostname,\n"
        "  update_hostname, update_etc_hosts, ca-certs, users-groups]\n"
        "cloud_config_modules: [ntp, timezone, set-passwords, runcmd]\n"
        "cloud_final_modules: [scripts-user, final-message]\n", 0o644,
    ),
    "etc/containerd/config.toml": (
        "version = 2\n"
        '[plugins."io.containerd.grpc.v1.cri"]\n'
        f'  sandbox_image = "{PAUSE}"\n'
        '[plugins."io.containerd.grpc.v1.cri".cni]\n'
        '  bin_dir = "/usr/lib/cni"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n'
        '  runtime_type = "io.containerd.runc.v2"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
        "  SystemdCgroup = true\n", 0o644,
    ),
    "etc/modules-load.d/kubernetes.conf": ("overlay\nbr_netfilter\n", 0o644),
    "etc/sysctl.d/90-kubernetes.conf": (
        "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n", 0o644,
    ),
    "etc/fstab": ("/dev/vda / ext4 defaults 0 1\n", 0o644),
    "etc/hostname": ("", 0o644),
    "etc/machine-id": ("", 0o644),
    **{f"usr/lib/kubewright/{each}": _guest(each) for each in ("kubernetes-version", "stage", "warm")},
    "etc/systemd/system/kubernetes-version.service": (
        "[Unit]\nDescription=The version of Kubernetes that this machine is told\nDefaultDependencies=no\n"
        "After=cloud-init.service\nBefore=kubelet.service cloud-config.service\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/lib/kubewright/kubernetes-version\n\n"
        "[Install]\nWantedBy=multi-user.target\n", 0o644,
    ),
    "etc/systemd/system/warm.service": (
        "[Unit]\nDescription=Wait for what this machine is to become\nDefaultDependencies=no\n"
        "After=local-fs.target systemd-udev-trigger.service\n"
        "Before=cloud-init-local.service network-pre.target sysinit.target\n\n"
        "[Service]\nType=notify\nTimeoutStartSec=infinity\nKillMode=process\nStandardOutput=journal+console\n"
        "ExecCondition=/bin/sh -c 'for each in /dev/vd?; do "
        '[ "$$(blkid -p -s LABEL -o value $$each)" = kwwait ] && exit 0; done; exit 1\'\n'
        "ExecStart=/usr/lib/kubewright/warm\n\n[Install]\nWantedBy=multi-user.target\n", 0o644,
    ),
    "etc/systemd/system/cloud-init-local.service.d/stage.conf": _stage("init --local"),
    "etc/systemd/system/cloud-init.service.d/stage.conf": _stage("init"),
    "etc/systemd/system/cloud-config.service.d/stage.conf": _stage("modules --mode=config"),
    "etc/systemd/system/cloud-final.service.d/stage.conf": _stage("modules --mode=final"),
    "etc/systemd/system/containerd.service": (
        # Debian's, but that it starts beside cloud-init's first stages: until a pod it needs no network.
        "[Unit]\nDescription=containerd container runtime\nDefaultDependencies=no\n"
        "After=local-fs.target systemd-tmpfiles-setup.service\n"
        "Before=shutdown.target\nConflicts=shutdown.target\n\n"
        "[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStart=/usr/bin/containerd\nType=notify\n"
        "Delegate=yes\nKillMode=process\nRestart=always\nRestartSec=5\nLimitNPROC=infinity\n"
        "LimitCORE=infinity\nLimitNOFILE=infinity\nTasksMax=infinity\nOOMScoreAdjust=-999\n\n"
        "[Install]\nWantedBy=multi-user.target\n", 0o644,
    ),
    "etc/systemd/system/kubelet.service": (
        "[Unit]\nDescription=kubelet\nAfter=containerd.service network.target kubernetes-version.service\n"
        # Without a configuration it would only fail, each time at the price of seconds without KVM.
        "ConditionPathExists=/var/lib/kubelet/config.yaml\n\n"
        "[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\n"
        "ExecStart=/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf "
        "--kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml "
        "$KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n"
        "Restart=always\nRestartSec=2\n\n[Install]\nWantedBy=multi-user.target\n", 0o644,
    ),
}  # fmt: skip
ENABLED = ("systemd-networkd", "systemd-resolved", "containerd", "kubelet", "kubernetes-version", "warm")


IMPORT = """set -eu
mount -t proc proc root/proc
for each in null urandom; do mount --bind /dev/$each root/dev/$each; done
exec chroot root sh -euc '
containerd > /run/containerd.log 2>&1 &
tries=0
until ctr version > /dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 300 ] || { cat /run/containerd.log; exit 1; }; sleep 0.1
done
for each in /mnt/images/*.tar; do ctr -n k8s.io images import "$each"; done
kill $!; wait $! || true'"""
"""Let containerd of the tree take the images in."""


class Failed(Exception):
    """The image could not be made; the message is for a person."""


def main() -> int:
    try:
        folder = image_folder()
        if not folder.exists():
            clock = SystemClock()
            began = clock.now()
            build(folder)
            print(f"make node-image: {(clock.now() - began).seconds} s", file=sys.stderr)
        size = sum(each.stat().st_size for each in folder.iterdir()) / 2**20
        print(f"{folder} ({size:.0f} MiB)")
    except (Failed, OSError) as failure:
        print(f"make node-image: {failure}", file=sys.stderr)
        return 1
    return 0


def image_folder() -> Path:
    """Where the image of these inputs is."""
    digest = hashlib.sha256()
    for path in sorted(
        each for each in HERE.rglob("*") if each.is_file() and "__pycache__" not in each.parts
    ):
        digest.update(path.name.encode() + path.read_bytes())
    for each in RELEASES:
        digest.update(each.version.encode())
    return cache_folder().parent.parent / f"node-image-{digest.hexdigest()[:12]}"


def build(folder: Path) -> None:
    """Make the image beside its folder, and rename."""
    architecture = platform.machine()
    if architecture not in KERNEL:
        raise Failed(f"there is no kernel for {architecture} on the list")
    for needed in ("mmdebstrap", "mke2fs", "qemu-img", "tar", "unshare", "go"):
        if shutil.which(needed) is None:
            raise Failed(f"{needed} is not installed (Debian: mmdebstrap, e2fsprogs, qemu-utils; and Go)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".node-image-", dir=folder.parent) as scratch:
        work = Path(scratch)
        _base(work, KERNEL[architecture])
        (work / "over.tar").write_bytes(oci.tar(over(work)))
        (work / "images").mkdir()
        for name, image in images(work, oci.ARCHITECTURES[architecture]):
            (work / "images" / f"{name}.tar").write_bytes(image)
        made = work / "made"
        made.mkdir()
        _disk(work, made)
        made.rename(folder)


def over(work: Path) -> dict[str, tuple[bytes, int]]:
    """The files that are laid over Debian's."""
    found = {path: (content.encode(), mode) for path, (content, mode) in FILES.items()}
    for release in RELEASES:
        for program in ("kubelet", "kubeadm"):
            made = _compiled(work, release, f"k8s.io/kubernetes/cmd/{program}")
            found[f"usr/lib/kubernetes/{release.version}/{program}"] = made.read_bytes(), 0o755
    return found


def images(work: Path, architecture: str) -> Iterator[tuple[str, bytes]]:
    """The images of containers, each of one program on nothing; each name of an image once."""
    there = set()
    for release in RELEASES:
        said = _run(
            str(work / release.version / "kubeadm"), "config", "images", "list",
            f"--kubernetes-version={release.version}",
        )  # fmt: skip
        names = {name.rpartition("/")[2].partition(":")[0]: name for name in said.split()}
        for program, package in {"pause": "", **COMPONENTS}.items():
            if names[program] not in there:
                path = f"usr/local/bin/{program}" if package else program
                content = _compiled(work, release, package).read_bytes()
                there.add(names[program])
                made = oci.archive(names[program], {path: content}, f"/{path}", architecture)
                yield f"{program}-{release.version}", made
    with tarfile.open(work / "base.tar") as base:
        busybox = base.extractfile("./usr/bin/busybox")
        assert busybox is not None, "it is one of the packages"
        yield "busybox", oci.archive(BUSYBOX, {"bin/busybox": busybox.read()}, "/bin/busybox", architecture)


def _compiled(work: Path, release: Release, package: str) -> Path:
    """A program of Kubernetes from the modules of its release; without a package, our pause."""
    name = {COMPONENTS[each]: each for each in COMPONENTS}.get(package, package.rpartition("/")[2]) or "pause"
    target = work / release.version / name
    if target.exists():
        return target
    target.parent.mkdir(exist_ok=True)
    stamp = release.stamp if package else ""
    flags = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {stamp}")
    print(f"make node-image: building {name} ({release.version})", file=sys.stderr, flush=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    where = release.modules if package else HERE / "pause"
    _run("go", "build", *flags, "-o", str(target), package or ".", cwd=where, env=environment)
    return target


def _base(work: Path, kernel: str) -> None:
    """Debian's packages as a tar."""
    print("make node-image: Debian's packages", file=sys.stderr, flush=True)
    mode = "root" if os.geteuid() == 0 else "unshare"
    wanted = ",".join((*PACKAGES, kernel))
    options = ("--variant=minbase", f"--mode={mode}", '--aptopt=Apt::Install-Recommends "false"')
    _run("mmdebstrap", "-q", *options, f"--include={wanted}", SUITE, str(work / "base.tar"))


def _disk(work: Path, made: Path) -> None:
    """The tree, the kernel beside it, and the disk; in a namespace where this user is root of it."""
    print("make node-image: the disk", file=sys.stderr, flush=True)
    links = " ".join(f"/etc/systemd/system/multi-user.target.wants/{each}.service" for each in ENABLED)
    script = f"""set -eu
mkdir root
tar -C root --numeric-owner -xf base.tar --exclude='./dev/*'
tar -C root --numeric-owner --no-same-owner -xf over.tar
for each in kubelet kubeadm; do ln -s /usr/lib/kubernetes/{VERSION}/$each root/usr/bin/$each; done
mkdir root/mnt/images; mv images/*.tar root/mnt/images/; touch root/dev/null root/dev/urandom
cat > import.sh <<'END'
{IMPORT}
END
unshare --mount --pid --fork --kill-child sh import.sh < /dev/null
rm -rf root/mnt/images root/dev/null root/dev/urandom root/run/*
rm -rf root/var/cache/apt/* root/var/lib/apt/lists/* root/usr/share/doc/* root/usr/share/man/*
for each in {links}; do
  unit=$(basename $each); mkdir -p root/etc/systemd/system/multi-user.target.wants
  for from in etc/systemd/system lib/systemd/system; do
    [ -e root/$from/$unit ] && ln -sf /$from/$unit root$each && break
  done
done
mv root/boot/vmlinuz-* made/vmlinuz; mv root/boot/initrd.img-* made/initrd
mke2fs -q -F -t ext4 -O ^has_journal -d root base.raw {SIZE_MIB}M
chmod -R u+rwX root; rm -rf root"""
    inside = () if os.geteuid() == 0 else ("unshare", "--map-root-user", "--map-auto")
    _run(*inside, "sh", "-c", script, cwd=work)
    compressed = ("-c", "-o", "compression_type=zstd")
    _run("qemu-img", "convert", "-O", "qcow2", *compressed, str(work / "base.raw"), str(made / "node.qcow2"))


def _run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{Path(command[0]).name} did not end within {SECONDS:.0f} s") from None
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise Failed(f"{Path(command[0]).name} failed:\n{tail}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
