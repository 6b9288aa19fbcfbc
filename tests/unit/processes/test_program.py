"""Values of programs: which changes need a new process, which names are folders, how an end is told."""

from dataclasses import replace

import pytest

from kubewright.processes.program import Exit, HttpGet, Probe, Program, safe_name

PROGRAM = Program("a", ("/bin/a", "--x"), {"K": "v"}, {"pki/ca.crt": b"c"})


@pytest.mark.parametrize(
    ("changed", "needs_a_new_process"),
    [
        pytest.param({"argv": ("/bin/a", "--y")}, True, id="another argument"),
        pytest.param({"argv": ("/bin/a --x",)}, True, id="the same words joined"),
        pytest.param({"environment": {"K": "w"}}, True, id="another environment"),
        pytest.param({"files": {"pki/ca.crt": b"d"}}, True, id="a file with other content"),
        pytest.param({"files": {"pki/ca.pem": b"c"}}, True, id="a file with another name"),
        pytest.param({"user": (1000, 1000)}, True, id="another user"),
        pytest.param({"readiness": Probe(HttpGet("http://127.0.0.1/"))}, False, id="another probe"),
        pytest.param({"grace": 5.0}, False, id="another grace"),
        pytest.param({"memory": 1, "oom_score": 1}, False, id="another limit"),
    ],
)
def test_a_fingerprint_stands_for_what_a_process_was_started_with(changed, needs_a_new_process):
    assert (replace(PROGRAM, **changed).fingerprint != PROGRAM.fingerprint) == needs_a_new_process


def test_settings_stand_for_all_else():
    kept = replace(PROGRAM, settings="one")
    assert replace(kept, argv=("/b",)).fingerprint == kept.fingerprint
    assert replace(kept, settings="two").fingerprint != kept.fingerprint


def test_the_content_of_files_is_not_shown():
    assert "pki" not in repr(PROGRAM)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("default/demo/etcd-0", True),
        ("a.b", True),
        ("", False),
        ("/a", False),
        ("a//b", False),
        ("a/../b", False),
        (".hidden", False),
        ("A", False),
        ("a b", False),
    ],
)
def test_names_of_folders(name, safe):
    assert safe_name(name) == safe


@pytest.mark.parametrize(
    ("code", "told"),
    [(0, "it ended with exit code 0"), (-9, "signal 9 ended it"), (None, "it ended")],
)
def test_an_end_is_told(code, told):
    assert str(Exit(code)) == told
