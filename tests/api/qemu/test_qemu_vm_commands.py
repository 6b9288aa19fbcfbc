"""``kubewright vm`` with real VMs: one is made, outlives the command, is found, and goes."""

import json
from pathlib import Path

import pytest

from kubewright.cli import main
from kubewright.processes import record
from kubewright.providers.qemu.host import LINE, boot_sector

from .bench import SPEC

CLASS = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": "MachineClass",
    "metadata": {"name": "tiny"},
    "provider": "qemu",
    "providerSpec": SPEC,
}


def ends(*words: str) -> int:
    try:
        main(["vm", *words])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.looptime(False)
def test_a_vm_of_qemu_outlives_the_command_that_made_it(
    tmp_path: Path, programs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images = tmp_path / "images"
    images.mkdir()
    (images / "tiny").write_bytes(boot_sector(LINE))
    Path("class.yaml").write_text(json.dumps(CLASS))
    options = [
        f"--driver-option=images={images}",
        *([f"--driver-option=programs={programs}"] if programs else []),
    ]
    given = ["--class", "class.yaml", "--data-dir", "vms", *options]
    assert ends("create", "m1", *given) == 0
    made = capsys.readouterr().out.splitlines()
    assert made[0].startswith("Machine id: qemu:///local/m1-")
    assert made[1:] == ["Name: m1"]
    (folder,) = [each for each in Path("vms/qemu/vms").iterdir() if each.is_dir()]
    found = record.read(folder)
    assert found is not None
    assert Path(f"/proc/{found.pid}").exists(), "it runs on"
    assert ends("create", "m1", *given) == ends("status", "m1", *given) == 0
    assert capsys.readouterr().out.splitlines() == [*made, *made, "Hostname: m1"]
    assert ends("delete", "m1", *given) == 0
    assert not folder.exists()
