"""Entries of ours in a kubeconfig that the user owns: nothing is lost, and what is not understood is refused."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.http.kubeconfig import Ours, merged
from kubewright.base.errors import InvalidInput

OURS = Ours(
    "kubewright",
    {"server": "https://127.0.0.1:4321", "certificate-authority-data": "Q0E="},
    {"client-certificate-data": "Q1JU", "client-key-data": "S0VZ"},
    "/srv/.kubewright",
)
WORK = """\
# my clusters
apiVersion: v1
clusters:
# the one at work
- cluster:
    server: https://work:6443   # behind the VPN
    certificate-authority: ca.crt
  name: work

- name: lab
  cluster: {server: "https://lab:6443"}
contexts:
- context: {cluster: work, user: ann}
  name: work
current-context: 'work'
kind: Config
preferences: {}
users:
  - name: ann
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: login   # opens a browser
        args: [--level, "1"]
# the end
"""


def parsed(text: str) -> dict[str, Any]:
    """As a reader of YAML has it; JSON is read as JSON, whose escapes are not YAML's."""
    found: dict[str, Any] = json.loads(text) if text.startswith("{") else yaml.safe_load(text)
    return found or {}


def loaded(text: str) -> dict[str, Any]:
    """The lists of a kubeconfig by name, and the current context."""
    found = parsed(text)
    parts = {"clusters": "cluster", "contexts": "context", "users": "user"}
    lists = {part: {each["name"]: each[body] for each in found[part]} for part, body in parts.items()}
    return {**lists, "current": found.get("current-context")}


def without_ours(text: str) -> dict[str, Any]:
    """All that is not our entries."""
    found = parsed(text)
    for part in ("clusters", "contexts", "users"):
        found[part] = [each for each in found.get(part) or [] if each["name"] != "kubewright"]
    return found


def test_every_line_of_a_users_file_stays() -> None:
    made = merged(WORK, OURS, use=False)
    lines = iter(made.splitlines())
    assert all(line in lines for line in WORK.splitlines()), made
    found = loaded(made)
    assert found["current"] == "work"
    assert list(found["clusters"]) == ["kubewright", "work", "lab"]
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:4321"
    assert found["contexts"]["kubewright"] == {"cluster": "kubewright", "user": "kubewright"}
    assert found["users"]["kubewright"] == OURS.user
    assert without_ours(made) == without_ours(WORK)


def test_a_second_time_changes_nothing() -> None:
    made = merged(WORK, OURS, use=False)
    assert merged(made, OURS, use=False) == made


def test_the_current_context_changes_when_asked_and_nothing_else_does() -> None:
    made = merged(WORK, OURS, use=False)
    assert merged(made, OURS, use=True) == made.replace("'work'", "kubewright")


def test_what_others_added_to_our_entries_stays_and_the_rest_is_renewed() -> None:
    made = merged(WORK, OURS, use=False)
    edited = made.replace("    user: kubewright\n", "    user: kubewright\n    namespace: shop  # mine\n")
    edited = edited.replace(
        "    server: https://127.0.0.1:4321\n", "    server: https://127.0.0.1:1\n    proxy-url: socks5://x\n"
    )
    assert edited.count("shop") == edited.count("socks5") == edited.count("127.0.0.1:1\n") == 1
    found = loaded(merged(edited, OURS, use=False))
    assert found["contexts"]["kubewright"]["namespace"] == "shop"
    assert found["clusters"]["kubewright"]["proxy-url"] == "socks5://x"
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:4321"
    assert "namespace: shop  # mine" in merged(edited, OURS, use=False)


def test_a_folder_that_was_made_anew_takes_its_old_place() -> None:
    anew = Ours(OURS.name, {**OURS.cluster, "certificate-authority-data": "TkVX"}, OURS.user, OURS.data_dir)
    found = loaded(merged(merged(WORK, OURS, use=False), anew, use=False))
    assert found["clusters"]["kubewright"]["certificate-authority-data"] == "TkVX"
    assert len(found["clusters"]) == 3


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no file"),
        pytest.param("# nothing yet\n", id="a comment only"),
        pytest.param("---\napiVersion: v1\nkind: Config\n", id="a header only"),
        pytest.param("apiVersion: v1\nkind: Config", id="no newline at the end"),
        pytest.param("clusters: []\ncontexts: null\nusers:\ncurrent-context: \"\"\n", id="empty lists"),
        pytest.param("clusters: [] # none\ncontexts: ~ # none\nusers: # none\ncurrent-context: # none\n", id="empty lists with comments"),
        pytest.param("clusters:\r\n- name: a\r\n  cluster: {server: b}\r\n", id="lines as Windows ends them"),
        pytest.param("users:\n- name: a\n  user:\n    token: |\n      x\n\n# end\n", id="a block of text at the end"),
        pytest.param("clusters:\n    - name: a\n      cluster:\n          server: b\n", id="deeply indented"),
        pytest.param('{"clusters": [{"name": "a", "cluster": {"server": "b"}}], "users": null}', id="JSON"),
        pytest.param("{}\n", id="an empty mapping"),
        pytest.param("users:\n- name: yes\n  user: {token: 0123, on: 1_000}\n", id="scalars that YAML bends"),
        pytest.param("x-a: &a {server: b}\nclusters:\n- {name: a, cluster: *a}\n", id="anchors"),
    ],
)  # fmt: skip
def test_a_file_of_any_shape_keeps_what_it_has_and_gets_ours(text: str) -> None:
    made = merged(text, OURS, use=False)
    found = loaded(made)
    assert found["clusters"]["kubewright"]["server"] == "https://127.0.0.1:4321"
    assert found["users"]["kubewright"] == OURS.user
    assert found["current"] == "kubewright"
    kept = without_ours(made)
    for key, value in parsed(text).items():
        assert key == "current-context" or kept[key] == (value or [])
    assert made.count("#") == text.count("#")  # no comment is lost
    assert merged(made, OURS, use=False) == made


OTHERS = {**OURS.cluster, "certificate-authority-data": "T1RIRVI="}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("clusters: [a\n", "not YAML in line 2; mend it", id="damaged"),
        pytest.param("kind:\tConfig\n", "without risk", id="a tab before a value"),
        pytest.param("\tclusters:\n", "not YAML in line 1", id="a tab"),
        pytest.param("- a\n", "it is no kubeconfig", id="a list"),
        pytest.param("hello\n", "it is no kubeconfig", id="a word"),
        pytest.param("clusters: {a: b}\n", "it is no kubeconfig", id="clusters that are no list"),
        pytest.param("clusters: [a]\n", "it is no kubeconfig", id="a cluster that is no mapping"),
        pytest.param(
            "users: [{name: kubewright, user: x}]\n", "it is no kubeconfig", id="a user that is no mapping"
        ),
        pytest.param("kind: Deployment\n", "no kubeconfig, but a Deployment", id="something else"),
        pytest.param("kind: Config\n---\nkind: Config\n", "not YAML", id="two documents"),
        pytest.param("clusters: [{name: a, cluster: {server: b}}]\n", "without risk", id="one line"),
        pytest.param("kind: Config\n...\n", "without risk", id="an end that was said"),
        pytest.param(
            yaml.safe_dump({"clusters": [{"name": "kubewright", "cluster": OTHERS}]}),
            "its cluster 'kubewright' is not this data folder's; choose another name with --context",
            id="another cluster of our name",
        ),
        pytest.param(
            "clusters:\n- {name: kubewright, cluster: {server: x, extensions: [1, {name: kubewright}]}}\n",
            "its cluster 'kubewright' is not this",
            id="another one's mark",
        ),
        pytest.param(
            "users:\n- name: kubewright\n  user: {token: x}\n",
            "its user 'kubewright' is not this data folder's",
            id="a user of our name",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        merged(text, OURS, use=False)
    assert sentence in str(refused.value)


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
bodies = st.dictionaries(
    names, st.one_of(names, st.booleans(), st.integers(), st.lists(names, max_size=2)), max_size=3
)
files = st.fixed_dictionaries(
    {},
    optional={
        "clusters": st.lists(st.fixed_dictionaries({"name": names, "cluster": bodies}), max_size=3),
        "contexts": st.lists(st.fixed_dictionaries({"name": names, "context": bodies}), max_size=3),
        "users": st.lists(st.fixed_dictionaries({"name": names, "user": bodies}), max_size=3),
        "current-context": names,
        "preferences": bodies,
    },
)


@given(files, st.booleans(), st.booleans(), st.booleans())
def test_nothing_that_kubectl_could_have_written_is_lost(
    file: dict[str, Any], use: bool, as_json: bool, sort: bool
) -> None:
    text = json.dumps(file) if as_json else yaml.safe_dump(file, sort_keys=sort, allow_unicode=True)
    made = merged(text, OURS, use=use)
    kept = without_ours(made)
    for key, value in file.items():
        if key == "current-context":
            assert kept[key] == ("kubewright" if use else value)
        else:
            assert kept[key] == value
    assert merged(made, OURS, use=use) == made
