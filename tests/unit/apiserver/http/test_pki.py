"""The private CA: what it issues, what it keeps, and when it renews."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.apiserver.http import pki
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity, has_signed
from kubewright.testing import keys
from kubewright.testing.clocks import LoopClock

START = datetime(2030, 1, 1, tzinfo=UTC)
YEARS = timedelta(days=365)


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock(START)


def certificate(identity: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(identity.certificate)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_server_is_known_by_every_local_name(clock: LoopClock) -> None:
    made = keys.in_memory(clock)
    assert made.server.names() == set(pki.NAMES)
    assert {"127.0.0.1", "::1", "localhost", "kubernetes.default.svc"} <= made.server.names()


async def test_identities_serve_one_purpose_each(clock: LoopClock) -> None:
    made = keys.in_memory(clock)
    for identity, purpose in (
        (made.server, ExtendedKeyUsageOID.SERVER_AUTH),
        (made.admin, ExtendedKeyUsageOID.CLIENT_AUTH),
        (made.issue("ann"), ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        usage = certificate(identity).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [purpose]
        with pytest.raises(x509.ExtensionNotFound):
            certificate(made.admin).extensions.get_extension_for_class(x509.SubjectAlternativeName)


async def test_a_client_certificate_carries_user_and_groups(clock: LoopClock) -> None:
    subject = certificate(keys.in_memory(clock).issue("ann", "devs", "ops")).subject
    assert [str(name.value) for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["ann"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [str(name.value) for name in groups] == ["devs", "ops"]


async def test_nothing_outlives_the_authority(clock: LoopClock) -> None:
    issued = keys.in_memory(clock).issue("ann", lifetime=100 * YEARS)
    assert issued.expires == START + pki.LIFETIME


@pytest.mark.parametrize("names", [("",), ("x" * 65,), ("ann", "g" * 65), ("ann", "")])
async def test_names_that_do_not_fit_are_refused(clock: LoopClock, names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="1 to 64 characters"):
        keys.in_memory(clock).issue(*names)


async def test_a_folder_keeps_everything_to_its_owner(clock: LoopClock, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "pki"
    pki.in_folder(folder, clock)
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == {
        "ca.pem": 0o600,
        "server.pem": 0o600,
        "admin.pem": 0o600,
    }


async def test_a_restart_finds_what_was_made(clock: LoopClock, tmp_path: Path) -> None:
    first = pki.in_folder(tmp_path, clock)
    again = pki.in_folder(tmp_path, clock)
    assert (again.authority, again.server, again.admin) == (first.authority, first.server, first.admin)


async def test_file_modes_are_corrected(clock: LoopClock, tmp_path: Path) -> None:
    pki.in_folder(tmp_path / "pki", clock)
    (tmp_path / "pki" / "ca.pem").chmod(0o644)
    (tmp_path / "pki").chmod(0o755)
    pki.in_folder(tmp_path / "pki", clock)
    assert (mode(tmp_path / "pki"), mode(tmp_path / "pki" / "ca.pem")) == (0o700, 0o600)


@pytest.mark.parametrize(
    ("years", "kept"),
    [
        pytest.param(8.9, True, id="with more than a year left all is kept"),
        pytest.param(9.1, False, id="within the last year all is made anew"),
        pytest.param(11, False, id="and so it is when all has ended"),
    ],
)
async def test_certificates_that_expire_soon_are_renewed(tmp_path: Path, years: float, kept: bool) -> None:
    first = pki.in_folder(tmp_path, LoopClock(START))
    later = pki.in_folder(tmp_path, LoopClock(START + years * YEARS))
    assert (later.authority == first.authority) is kept
    assert (later.admin == first.admin) is kept
    assert has_signed(Identity(later.authority, b""), later.server)


async def test_other_names_renew_the_server_only(clock: LoopClock, tmp_path: Path) -> None:
    first = pki.in_folder(tmp_path, clock)
    more = pki.in_folder(tmp_path, clock, names=("10.0.0.7",))
    assert more.server.names() == {*pki.NAMES, "10.0.0.7"}
    assert pki.in_folder(tmp_path, clock, names=("127.0.0.1", "10.0.0.7")).server == more.server
    fewer = pki.in_folder(tmp_path, clock)
    assert fewer.server.names() == set(pki.NAMES)
    for each in (more, fewer):
        assert (each.authority, each.admin) == (first.authority, first.admin)


async def test_a_lost_authority_takes_its_identities_with_it(clock: LoopClock, tmp_path: Path) -> None:
    first = pki.in_folder(tmp_path, clock)
    (tmp_path / "ca.pem").unlink()
    again = pki.in_folder(tmp_path, clock)
    assert again.admin != first.admin
    assert has_signed(Identity(again.authority, b""), again.admin)


@pytest.mark.parametrize("content", [b"", b"not a certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
async def test_a_broken_file_is_named(clock: LoopClock, tmp_path: Path, content: bytes) -> None:
    pki.in_folder(tmp_path, clock)
    (tmp_path / "server.pem").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"server\.pem is not a certificate with its key"):
        pki.in_folder(tmp_path, clock)


async def test_a_key_of_another_certificate_is_noticed(clock: LoopClock, tmp_path: Path) -> None:
    made = pki.in_folder(tmp_path, clock)
    (tmp_path / "admin.pem").write_bytes(made.admin.certificate + made.server.key)
    with pytest.raises(InvalidInput, match=r"admin\.pem"):
        pki.in_folder(tmp_path, clock)


async def test_a_folder_that_is_a_file_is_one_sentence(clock: LoopClock, tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("")
    with pytest.raises(InvalidInput, match="cannot use the folder"):
        pki.in_folder(tmp_path / "pki", clock)


async def test_the_server_speaks_no_old_tls_and_asks_for_certificates(clock: LoopClock) -> None:
    context = keys.in_memory(clock).server_context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_OPTIONAL


async def test_keys_are_not_shown_by_repr(clock: LoopClock) -> None:
    assert "KEY" not in repr(keys.in_memory(clock).admin)
