"""`kubewright driver serve`: what is typed wrongly is told in one sentence, before anything runs."""

import pytest

from kubewright.cli.app import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nope"], "there is no driver 'nope'; installed drivers: "),
        (["grpc"], "driver grpc is the manager's side; name the driver that is to be served"),
        (["sim", "--driver-option", "bogus=1"], "bogus"),
        (["sim", "--key", "/nope"], "for TLS a driver needs all three: authorities, certificate and key"),
        (
            ["sim", "--key", "/nope", "--certificate", "/nope", "--authorities", "/nope"],
            "/nope cannot be read: No such file or directory",
        ),
        (["sim", "--kubeconfig", ""], "--kubeconfig is empty"),
        (["sim", "--manager", "http://foo"], "at unix:PATH or HOST:PORT, such as"),
    ],
)
def test_a_driver_that_cannot_be_served_is_told_in_one_sentence(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["driver", "serve", "--manager", "unix:/nowhere", "--log-level", "error", *words])
    said = capsys.readouterr().err
    assert ended.value.code != 0
    assert told in said
    assert "Traceback" not in said
