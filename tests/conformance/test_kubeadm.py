"""kubeadm itself on every document that we write for it, in each version of its API that it still reads."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubewright.api.bootstrap.parts import Patches
from kubewright.api.bootstrap.v1beta1 import (
    DNS,
    APIEndpoint,
    APIServer,
    BootstrapToken,
    BootstrapTokenDiscovery,
    ClusterConfiguration,
    ControlPlaneComponent,
    Discovery,
    Etcd,
    ExternalEtcd,
    FileDiscovery,
    HostPathMount,
    InitConfiguration,
    JoinConfiguration,
    JoinControlPlane,
    LocalEtcd,
    Networking,
    NodeRegistration,
)
from kubewright.api.core import Taint
from kubewright.apiserver.http.reach import Reach
from kubewright.base.clock import SystemClock
from kubewright.bootstrap.documents import Api, init_documents, join_document
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.testing.real_kubernetes import kubeadm

pytestmark = pytest.mark.kube

APIS = [Api.V1BETA3, Api.V1BETA4]
"""kubeadm of v1.27 and newer reads no v1beta2; its documents are compared with upstream's."""

MOUNT = HostPathMount(
    name="v", host_path="/h", mount_path="/m", read_only=True, path_type="DirectoryOrCreate"
)
COMPONENT = ControlPlaneComponent(extra_args={"v": "4", "bind-address": "0.0.0.0"}, extra_volumes=(MOUNT,))
REGISTRATION = NodeRegistration(
    name="node-1",
    cri_socket="unix:///run/containerd/containerd.sock",
    taints=(Taint(key="a", value="b", effect="NoSchedule"), Taint(key="c", effect="PreferNoSchedule")),
    kubelet_extra_args={"node-labels": "a=b,c=d", "provider-id": "x:///y"},
    ignore_preflight_errors=("Swap", "Mem"),
    image_pull_policy="IfNotPresent",
)
NO_TAINTS = NodeRegistration(name="node-1", taints=())
HASH = "sha256:" + "0" * 64
TOKEN = BootstrapTokenDiscovery(
    token="abcdef.0123456789abcdef", api_server_endpoint="[fd00::1]:6443", ca_cert_hashes=(HASH,)
)
FULL = ClusterConfiguration(
    etcd=Etcd(
        local=LocalEtcd(
            image_repository="r.example.com",
            image_tag="3.5.1-0",
            data_dir="/var/lib/etcd/data",
            extra_args={"quota-backend-bytes": "8589934592"},
            server_cert_sans=("etcd.example.com",),
            peer_cert_sans=("10.0.0.9",),
        )
    ),
    networking=Networking(
        service_subnet="10.96.0.0/16,fd00:1::/112", pod_subnet="10.1.0.0/16,fd00:2::/48", dns_domain="c.local"
    ),
    kubernetes_version="v1.36.0",
    control_plane_endpoint="api.example.com:6443",
    api_server=APIServer(
        extra_args={"audit-log-path": "-"},
        extra_volumes=(MOUNT,),
        cert_sans=("api.example.com", "10.0.0.1"),
        timeout_for_control_plane="6m0s",
    ),
    controller_manager=COMPONENT,
    scheduler=COMPONENT,
    dns=DNS(image_repository="r.example.com", image_tag="v1.11.1"),
    certificates_dir="/etc/kubernetes/pki",
    image_repository="registry.example.com",
    cluster_name="demo",
)
ELSEWHERE = ClusterConfiguration(
    kubernetes_version="v1.36.0",
    etcd=Etcd(
        external=ExternalEtcd(
            endpoints=("https://10.0.0.1:2379",),
            ca_file="/e/ca.crt",
            cert_file="/e/c.crt",
            key_file="/e/c.key",
        )
    ),
)
INITS = {
    "least": (ClusterConfiguration(kubernetes_version="v1.36.0"), InitConfiguration()),
    "no taints": (ELSEWHERE, InitConfiguration(node_registration=NO_TAINTS)),
    "full": (
        FULL,
        InitConfiguration(
            bootstrap_tokens=(
                BootstrapToken(
                    token="abcdef.0123456789abcdef",
                    description="for machines",
                    ttl="24h0m0s",
                    usages=("signing", "authentication"),
                    groups=("system:bootstrappers:kubeadm:default-node-token",),
                ),
            ),
            node_registration=REGISTRATION,
            local_api_endpoint=APIEndpoint(advertise_address="10.0.0.1", bind_port=6443),
            skip_phases=("addon/kube-proxy",),
            patches=Patches(directory="/etc/kubernetes/patches"),
        ),
    ),
}
JOINS = {
    "worker": JoinConfiguration(discovery=Discovery(bootstrap_token=TOKEN)),
    "worker without taints": JoinConfiguration(
        node_registration=NO_TAINTS, discovery=Discovery(bootstrap_token=TOKEN, timeout="2m0s")
    ),
    "worker by a file": JoinConfiguration(
        discovery=Discovery(
            file=FileDiscovery(kube_config_path="https://k.example.com/k"),
            tls_bootstrap_token="abcdef.0123456789abcdef",
        )
    ),
    "control plane": JoinConfiguration(
        discovery=Discovery(bootstrap_token=TOKEN), control_plane=JoinControlPlane()
    ),
    "full": JoinConfiguration(
        node_registration=REGISTRATION,
        ca_cert_path="/etc/kubernetes/pki/ca.crt",
        discovery=Discovery(bootstrap_token=TOKEN, tls_bootstrap_token=TOKEN.token, timeout="5m0s"),
        control_plane=JoinControlPlane(
            local_api_endpoint=APIEndpoint(advertise_address="10.0.0.2", bind_port=6443)
        ),
        skip_phases=("preflight",),
        patches=Patches(directory="/etc/kubernetes/patches"),
    ),
}


@pytest.fixture(scope="module")
def program() -> Path:
    return kubeadm.KUBEADM.find()


def said(program: Path, folder: Path, text: str) -> str:
    document = folder / "document.yaml"
    document.write_text(text)
    return kubeadm.problems(program, document)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", INITS)
def test_it_would_initialize(program: Path, tmp_path: Path, api: Api, name: str) -> None:
    assert said(program, tmp_path, init_documents(api, *INITS[name])) == ""


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", JOINS)
def test_it_would_join(program: Path, tmp_path: Path, api: Api, name: str) -> None:
    assert said(program, tmp_path, join_document(api, JOINS[name], FULL)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nmadeUp: 1\n",
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n",
    ],
    ids=["an unknown field", "no discovery"],
)
def test_it_would_not_take_everything(program: Path, tmp_path: Path, text: str) -> None:
    assert said(program, tmp_path, text)


@asynccontextmanager
async def up(folder: Path) -> AsyncIterator[Embedded]:
    """A server that other machines reach, as ``kubewright up --address`` serves it."""
    stop, where = asyncio.Event(), Reach("127.0.0.2", ("127.0.0.2",))
    async with Embedded(ServerConfig(folder, reach=where), Options(), SystemClock()) as world:
        serving = asyncio.create_task(world.serve(stop))
        try:
            yield world
        finally:
            stop.set()
            await serving


@pytest.mark.looptime(False)
async def test_it_makes_a_token_and_would_join_the_server_of_up(program: Path, tmp_path: Path) -> None:
    """All but what needs a kubelet: the token, discovery by it, trust, and what the cluster says of itself."""
    async with up(tmp_path / "up") as world:
        words = (program, "token", "create", "--kubeconfig", world.kubeconfig, "--print-join-command")
        made = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, timeout=kubeadm.SECONDS, check=True
        )
        _, _, address, _, token, _, digest = made.stdout.split()
        assert f"https://{address}" == world.url
        by_token = BootstrapTokenDiscovery(token=token, api_server_endpoint=address, ca_cert_hashes=(digest,))
        joining = JoinConfiguration(discovery=Discovery(bootstrap_token=by_token))
        document = tmp_path / "join.yaml"
        document.write_text(join_document(APIS[0], joining, ClusterConfiguration()))
        assert await asyncio.to_thread(kubeadm.refusal, program, document) == ""
        wrong = BootstrapTokenDiscovery(
            token=token, api_server_endpoint=address, ca_cert_hashes=(f"sha256:{'0' * 64}",)
        )
        document.write_text(
            join_document(
                APIS[0], JoinConfiguration(discovery=Discovery(bootstrap_token=wrong)), ClusterConfiguration()
            )
        )
        assert "cluster CA" in await asyncio.to_thread(kubeadm.refusal, program, document)
