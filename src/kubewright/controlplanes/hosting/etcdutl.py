"""How ``etcdutl`` is called to make the data of one etcd member from a snapshot, and the names in that. Pure.

Theory.      Each member's data is made from the one file, with the names and peer URLs of all: together they
             are a new cluster with the content of the snapshot, at the addresses of the former one.
Invariants.  New revisions begin far above those of the snapshot, and all older ones count as compacted, so
             that no client takes old data for new. The token is that of one restore, so that members of the
             former cluster and of the new one never take each other for theirs.
Source       etcd's documentation of disaster recovery; etcdutl's ``snapshot restore``.
Called by    ``processes.restoring``, ``pods.restore_pods``.
"""

from collections.abc import Mapping

from kubewright.api.controlplane.names import PEER_PORT

PROGRAM = "etcdutl"
REVISION_GAP = 1_000_000_000
"""How far new revisions begin above those of the snapshot, as etcd's documentation advises."""


def arguments(source: str, target: str, name: str, peers: Mapping[str, str], mark: str) -> list[str]:
    """The arguments of ``etcdutl`` for one member. ``peers``: the peer URL of each member, by its name."""
    flags = {
        "data-dir": target,
        "name": name,
        "initial-cluster": ",".join(f"{each}={peer}" for each, peer in peers.items()),
        "initial-advertise-peer-urls": peers[name],
        "initial-cluster-token": mark,
        "bump-revision": str(REVISION_GAP),
    }
    return ["snapshot", "restore", source, "--mark-compacted", *(f"--{k}={v}" for k, v in flags.items())]


def bracketed(host: str) -> str:
    """A host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def peer_url(host: str) -> str:
    """The URL by which the other members reach one; ``host``: a name or an address."""
    return f"https://{bracketed(host)}:{PEER_PORT}"


def former_name(mark: str) -> str:
    """The name of the folder in which the data is kept that the replacement with this mark has replaced."""
    return f"before-{mark}"
