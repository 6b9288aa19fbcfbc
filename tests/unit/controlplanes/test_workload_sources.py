"""Which Secrets and ConfigMaps the volumes of a component name, and what of them is missed."""

import pytest

from kubewright.api.core import CONFIG_MAP
from kubewright.controlplanes.component.workload import Source, missing_of, sources
from kubewright.controlplanes.templates.render import Rendered


def rendered(*volumes):
    return Rendered([{"kind": "StatefulSet", "spec": {"template": {"spec": {"volumes": list(volumes)}}}}])


def secret(name="keys", *items, **more):
    return {
        "secret": {
            "secretName": name,
            **({"items": [{"key": key} for key in items]} if items else {}),
            **more,
        }
    }


SOURCES = [
    ("no volume", [], []),
    ("a volume of another kind", [{"emptyDir": {}}], []),
    ("all entries of a Secret", [secret()], [Source("Secret", "keys")]),
    ("some", [secret("keys", "a", "b")], [Source("Secret", "keys", ("a", "b"), ("a", "b"))]),
    ("a ConfigMap", [{"configMap": {"name": "texts"}}], [Source("ConfigMap", "texts")]),
    ("some that need not be there", [secret("keys", "a", optional=True)], [Source("Secret", "keys", ("a",), (), True)]),
    ("two volumes of one Secret, of which one needs its entry",
     [secret("keys", "a", optional=True), secret("keys", "b")], [Source("Secret", "keys", ("a", "b"), ("b",))]),
    ("an entry that one volume needs and another one does not",
     [secret("keys", "a"), secret("keys", "a", optional=True)], [Source("Secret", "keys", ("a",), ("a",))]),
    ("some entries, and all of them", [secret("keys", "a"), secret()], [Source("Secret", "keys", (), ("a",))]),
    ("projected", [{"projected": {"sources": [{"secret": {"name": "keys", "items": [{"key": "a"}]}}]}}],
     [Source("Secret", "keys", ("a",), ("a",))]),
    ("projected from nothing", [{"projected": {"sources": None}}], []),
    ("an entry without a key, which a user's patch made", [{"secret": {"secretName": "keys", "items": [{}]}}],
     [Source("Secret", "keys", ("",), ("",))]),
]  # fmt: skip


@pytest.mark.parametrize(("volumes", "found"), [c[1:] for c in SOURCES], ids=[c[0] for c in SOURCES])
def test_what_volumes_name(volumes, found):
    assert list(sources(rendered(*volumes))) == found


BOTH = Source("Secret", "keys", ("a", "b"), ("b",))
MISSED = [
    ("all is there", BOTH, {"a": b"", "b": b""}, []),
    ("what need not be there", BOTH, {"b": b""}, []),
    ("what a volume needs", BOTH, {"a": b""}, ["Secret keys has no b"]),
    ("the object", BOTH, None, ["Secret keys"]),
    ("an object that no volume needs", Source("Secret", "keys", ("a",), (), optional=True), None, []),
]


@pytest.mark.parametrize(("source", "contents", "told"), [c[1:] for c in MISSED], ids=[c[0] for c in MISSED])
def test_what_is_missed(source, contents, told):
    assert missing_of(source, contents) == told


def test_the_entries_of_a_config_map_are_its_texts_and_what_is_no_text():
    found = CONFIG_MAP.from_plain(
        {"metadata": {"name": "texts"}, "data": {"a": "ü"}, "binaryData": {"b": "/w=="}}
    )
    assert found.entries == {"a": "ü".encode(), "b": b"\xff"}
