"""What a class and an administrator may say to the qemu driver, and what is said to them."""

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.driver.errors import InvalidArgument
from kubewright.providers.qemu.spec import GIB, MIB, parse_options, parse_spec

HASH = "ab" * 32


def test_what_a_class_leaves_out():
    spec = parse_spec({"image": "debian.qcow2"})
    assert (spec.cpus, spec.memory_bytes, spec.disk_bytes) == (1, GIB, 10 * GIB)
    assert (spec.accelerator, spec.extra_bytes, spec.url) == ("auto", (), "")


def test_what_a_class_may_say():
    url = "https://example.com/images/debian.qcow2"
    spec = parse_spec(
        {"image": url, "sha256": HASH, "cpus": 2, "memory": 64 * MIB, "disk": "1.5Gi", "firmware": "uefi"}
        | {"extraDisks": [{"size": "1G"}], "architecture": "arm64", "tags": {"vm": {"a": "b"}}}
    )
    assert (spec.memory_bytes, spec.disk_bytes, spec.extra_bytes) == (64 * MIB, 3 * GIB // 2, (10**9,))
    assert (spec.url, spec.runs_on, spec.tags.vm) == (url, "arm64", {"a": "b"})


@pytest.mark.parametrize(
    ("field", "wrong", "says"),
    [
        ("image", "", "image: Expected `str` of length >= 1"),
        ("image", "../etc/passwd", "image: '../etc/passwd' is no name of a file"),
        ("image", "/images/debian", "image: '/images/debian' is no name of a file"),
        ("image", "a,b", "image: 'a,b' is no name of a file"),
        ("image", "debian\n", r"image: 'debian\n' is no name of a file"),
        ("image", "file:///etc/passwd", "image: 'file:///etc/passwd' is neither a file's name nor an http"),
        ("image", "https://example.com/i", "sha256: is needed for an image that is fetched"),
        ("sha256", "abc", "sha256: "),
        ("sha256", f"{HASH}\n", "sha256: "),
        ("cpus", 0, "cpus: Expected `int` >= 1"),
        ("cpus", "2", "cpus: Expected `int`, got `str`"),
        ("memory", "1MB", "memory: '1MB' is not a quantity"),
        ("memory", "1Mi", "memory: 1Mi is not between 32Mi and 1024Gi"),
        ("memory", "33554432.5", "memory: 33554432.5 is no whole number of bytes"),
        ("disk", "-1", "disk: -1 is not between 1Mi and 16384Gi"),
        ("extraDisks", [{"size": "1"}], "extraDisks[0].size: 1 is not between"),
        ("extraDisks", [{"size": "1Gi"}] * 9, "extraDisks: Expected `array` of length <= 8"),
        ("extraDisks", [{"path": "/"}], "extraDisks[0]: Object "),
        ("architecture", "riscv64", "architecture: Invalid enum value 'riscv64'"),
        ("accelerator", "xen", "accelerator: Invalid enum value 'xen'"),
        ("firmware", "bios", "firmware: bios is there for amd64 only"),
        ("kernel", "a/b", "kernel: 'a/b' is no name of a file"),
        ("initrd", "initrd.gz", "kernel: is needed where initrd or commandLine is given"),
        ("commandLine", "a\nb", "commandLine: Expected `str` matching regex"),
        ("tags", {"vm": {"a": 1}}, "tags.vm[...]: Expected `str`, got `int`"),
        ("tags", {"volume": {}}, "tags: Object contains unknown field `volume`"),
        ("qemu", "-monitor stdio", "Object contains unknown field `qemu`"),
    ],
)
def test_what_a_class_may_not_say(field, wrong, says):
    given = {"image": "debian", "architecture": "arm64", field: wrong}
    with pytest.raises(InvalidArgument) as refused:
        parse_spec(given)
    assert refused.value.message.startswith(f"providerSpec: {says}")


@pytest.mark.parametrize(
    ("option", "wrong", "says"),
    [
        ("vms", "0", "vms: Expected `int` >= 1"),
        ("network", "host", "network: Invalid enum value 'host'"),
        ("memory", "much", "'much' is not a quantity"),
        ("memory", "1Mi", "memory: 1Mi is less than a VM needs"),
        ("site", "A/B", "site: Expected `str` matching regex"),
        (
            "imageUrls",
            "https:// https://images.example.com",
            "imageUrls: 'https://images.example.com' has to",
        ),
        ("imageUrls", "https://images.example.com/a", "imageUrls: 'https://images.example.com/a' has to"),
        ("imageUrls", "https://images.example.com@evil.example/", "imageUrls: 'https://images.example.com@"),
        ("image", "x", "Object contains unknown field `image`"),
    ],
)
def test_what_an_administrator_may_not_say(option, wrong, says):
    with pytest.raises(InvalidInput) as refused:
        parse_options({option: wrong})
    assert str(refused.value).startswith(f"driver qemu: {says}")


def test_from_where_images_may_be_fetched():
    found = parse_options({"imageUrls": "https://images.example.com/debian/ https://"})
    assert found.prefixes == ("https://images.example.com/debian/", "https://")


def test_where_images_lie(tmp_path):
    assert parse_options({}).folders(tmp_path) == (tmp_path / "images",)
    named = parse_options({"images": f"{tmp_path}/a:{tmp_path}/b"})
    assert named.folders(tmp_path) == (tmp_path / "a", tmp_path / "b")
