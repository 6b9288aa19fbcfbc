"""What ``/configz`` shows."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from kubewright.compose.on_kubernetes import HIDDEN, configuration
from kubewright.compose.options import Election, Options
from kubewright.machines.settings import MachineSettings


def test_what_a_user_chose_is_shown_and_driver_options_are_not() -> None:
    options = Options(
        driver="hetzner",
        driver_options={"token": "s3cret", "region": "eu-1"},
        machine=MachineSettings(drain_timeout=timedelta(minutes=90)),
        snapshot_folder=Path("/snapshots"),
    )
    shown = configuration(options, Election(namespace="garden"))["kubewright"]
    assert shown["driver"] == "hetzner"
    assert shown["driver_options"] == {"region": HIDDEN, "token": HIDDEN}
    assert shown["machine"]["drain_timeout"] == "1h30m0s"
    assert shown["snapshot_folder"] == "/snapshots"
    assert shown["election"]["namespace"] == "garden"
    assert "s3cret" not in json.dumps(shown)


def test_all_settings_are_json() -> None:
    shown = configuration(replace(Options(), controllers=("*", "-machine")), Election())
    assert json.loads(json.dumps(shown)) == shown
