"""Which server a command asks, and whether it has the namespace that is meant."""

from pathlib import Path

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.cli.asking import Chosen, choose
from kubewright.cli.switches import DATA_DIR, Where

A, B = Path("a"), Path("b")
SERVED = {B: Path("b/kubeconfig"), DATA_DIR: Path("/here/kubeconfig")}


def served(data_dir: Path) -> Path | str:
    return SERVED.get(data_dir, f"nothing serves {data_dir}")


def nowhere(data_dir: Path) -> Path | str:
    return f"nothing serves {data_dir}"


@pytest.mark.parametrize(
    ("where", "environ", "expected"),
    [
        pytest.param(
            Where(A), {"KUBECONFIG": "x"}, Chosen(A, "", "--kubeconfig a"), id="a kubeconfig that is named"
        ),
        pytest.param(
            Where(data_dir=B),
            {"KUBECONFIG": "x"},
            Chosen(Path("b/kubeconfig"), "kubewright", "--data-dir b"),
            id="a folder that is named wins over KUBECONFIG",
        ),
        pytest.param(
            Where(), {"KUBECONFIG": "x"}, Chosen(None, "", "$KUBECONFIG"), id="KUBECONFIG wins over the folder here"
        ),
        pytest.param(
            Where(),
            {"KUBECONFIG": ""},
            Chosen(Path("/here/kubeconfig"), "kubewright", "the data folder .kubewright here"),
            id="the folder here, as status and down find it",
        ),
    ],
)  # fmt: skip
def test_which_server_is_asked(where: Where, environ: dict[str, str], expected: Chosen) -> None:
    assert choose(where, environ, served) == expected


def test_where_nothing_is_named_and_nothing_runs_here_it_is_that_of_the_users_kubeconfig() -> None:
    assert choose(Where(), {}, nowhere) == Chosen(None, "", "~/.kube/config")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        pytest.param(Where(A, B), "leave one out", id="two servers"),
        pytest.param(Where(data_dir=A), "nothing serves a", id="a folder that nothing serves"),
    ],
)
def test_what_names_no_server_is_refused(where: Where, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        choose(where, {}, served)
