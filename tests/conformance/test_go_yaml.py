"""Go's own libraries read what we write for programs in Go, and what our reader reads.

Guessed before the first run, and wrong: that a key ``685230.15`` stays one (sigs.k8s.io/yaml makes keys of 32 bits
of a number), that ``.inf`` is an error as a key too, and that ``08`` is text somewhere.
"""

import json
import random
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.test_goyaml import AMBIGUOUS, KEYS, PLAIN, READ, TEXTS

from kubewright.api.bootstrap.v1beta1 import ClusterConfiguration, InitConfiguration, NodeRegistration
from kubewright.bootstrap.documents import Api, init_documents
from kubewright.kube.config import inline_access
from kubewright.pki.clusters import kubeconfig
from kubewright.testing.real_kubernetes import find, judges, kubeadm
from kubewright.wire import goyaml

pytestmark = pytest.mark.kube

NAMES = [*AMBIGUOUS, *PLAIN]


def read(*texts: str) -> list[dict[str, object]]:
    return judges.read(judges.GO_YAML.find(), texts)


def test_each_library_reads_each_text_that_we_write() -> None:
    for text, found in zip(NAMES, read(*(goyaml.dumped({each: [each]}) for each in NAMES)), strict=True):
        assert found == {library: {text: [text]} for library in judges.LIBRARIES}


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=20, max_size=60))
def test_each_library_reads_any_text_that_we_write(texts: list[str]) -> None:
    for text, found in zip(texts, read(*(goyaml.dumped({each: [each]}) for each in texts)), strict=True):
        assert found == {library: {text: [text]} for library in judges.LIBRARIES}


def test_our_reader_agrees_with_kubernetes_about_words_and_keys() -> None:
    words = [
        *READ,
        *KEYS,
        *NAMES,
        ".inf",
        "-.nan",
        "~",
        "1e6",
        "1234567.5",
        "685_230.15",
        "1e40",
        "-0",
        "-0.0",
    ]
    chosen = random.Random(1)
    for letters in ("0123456789+-._eE", "0123456789+-._eExXbBoOnNyYaAfFtTrRuUiIlLsSzZ:~="):
        words += ["".join(chosen.choices(letters, k=chosen.randint(1, 7))) for _ in range(3000)]
    texts = [f"a: {word}\n" for word in words] + [f"{word}: 1\n" for word in words]
    for text, found in zip(texts, read(*texts), strict=True):
        assert ours(text) == kubernetes(found["sigs"]), text


DOCUMENTS = [
    "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n",
    "a: &x {b: 1}\nd: {b: 3, <<: *x}\n",
    "a: &x {b: 1}\nd: &y {b: 3, e: 4}\nf:\n  <<: [*x, *y]\n",
    "a: &a [*a]\n",
    "a: !!int x\n",
    "a: 1\na: 2\n",
    "---\na: 1\n---\nb: 1\n",
    "? [a]\n: 1\n",
    "a: b: c\n",
    "a:\tb\n",
    "",
]


def test_our_reader_agrees_with_kubernetes_about_documents() -> None:
    for text, found in zip(DOCUMENTS, read(*DOCUMENTS), strict=True):
        assert ours(text) == kubernetes(found["sigs"]), text


def ours(text: str) -> object:
    try:
        return goyaml.loads(text)
    except goyaml.Unreadable:
        return "refused"


def kubernetes(found: object) -> object:
    return "refused" if isinstance(found, Exception) else found


@pytest.mark.parametrize(
    "name", ["1e3", "0o17", "08", "12e3", "0x1f", "y", "on", "null", "1-1-1", "2001-01-01"]
)
def test_a_kubeconfig_of_a_cluster_with_this_name_is_read_by_all(name: str) -> None:
    text = kubeconfig(name, name, "https://10.0.0.1:6443", b"CA", {"token": name})
    (found,) = read(text.decode())
    for library in judges.LIBRARIES:
        assert found[library]["clusters"][0]["name"] == name
        assert found[library]["contexts"][0]["context"] == {"cluster": name, "user": name}
        assert found[library]["users"] == [{"name": name, "user": {"token": name}}]
    assert inline_access(text).server == "https://10.0.0.1:6443"


def test_kubectl_reads_a_kubeconfig_of_names_that_look_like_numbers(tmp_path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(kubeconfig("1e3", "08", "https://10.0.0.1:6443", b"CA", {"token": "0o17"}))
    words = ["--kubeconfig", file, "config", "view", "--raw", "-o", "json"]
    done = subprocess.run([find().kubectl, *words], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    assert found["current-context"] == "08@1e3"
    assert found["contexts"][0]["context"] == {"cluster": "1e3", "user": "08"}
    assert found["users"][0] == {"name": "08", "user": {"token": "0o17"}}


@pytest.mark.parametrize("api", [Api.V1BETA3, Api.V1BETA4])
def test_kubeadm_takes_arguments_that_look_like_numbers(api: Api, tmp_path) -> None:
    arguments = {f"a{number}": text for number, text in enumerate(AMBIGUOUS)}
    registration = NodeRegistration(name="08", kubelet_extra_args=arguments)
    document = tmp_path / "kubeadm.yaml"
    cluster = ClusterConfiguration(kubernetes_version="v1.36.0", cluster_name="1e3")
    document.write_text(init_documents(api, cluster, InitConfiguration(node_registration=registration)))
    assert kubeadm.problems(kubeadm.KUBEADM.find(), document) == ""
