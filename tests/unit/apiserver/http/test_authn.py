"""The user of a request: by certificate, by token, or anonymous."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kubewright.apiserver.http import authn
from kubewright.apiserver.http.authn import ANONYMOUS, AUTHENTICATED, Authenticator
from kubewright.pki.certificates import Identity
from kubewright.testing import keys
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Unauthorized
from kubewright.wire.http import User

ANN = User("ann", ("devs",))
ROBOT = User("system:serviceaccount:default:robot", ("system:serviceaccounts",))


def der(identity: Identity) -> bytes:
    return x509.load_pem_x509_certificate(identity.certificate).public_bytes(Encoding.DER)


def verify(token: str) -> User | None:
    return {"secret": ANN, "robot-token": ROBOT}.get(token)


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("authorization", "name", "groups"),
    [
        pytest.param("", "system:anonymous", ("system:unauthenticated",), id="no credentials"),
        pytest.param("Bearer secret", "ann", ("devs", AUTHENTICATED), id="a token that the verifier knows"),
        pytest.param("bearer secret", "ann", ("devs", AUTHENTICATED), id="the scheme in any case"),
        pytest.param("Bearer   secret ", "ann", ("devs", AUTHENTICATED), id="spaces around it do not count"),
        pytest.param(
            "Bearer robot-token",
            ROBOT.name,
            ("system:serviceaccounts", AUTHENTICATED),
            id="a service account's token",
        ),
    ],
)
async def test_a_header_gives_the_user(
    clock: LoopClock, authorization: str, name: str, groups: tuple[str, ...]
) -> None:
    known = Authenticator(clock, verify)
    assert known.user(None, authorization) == User(name, groups)


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("Bearer wrong", id="an unknown token"),
        pytest.param("Bearer secre", id="the beginning of a token"),
        pytest.param("Bearer ", id="no token at all"),
        pytest.param("Basic YW5uOnNlY3JldA==", id="a password"),
        pytest.param("secret", id="a token without a scheme"),
        pytest.param("Bearer \udcff", id="bytes that are no text"),
    ],
)
async def test_invalid_credentials_are_refused_and_not_repeated(clock: LoopClock, authorization: str) -> None:
    known = Authenticator(clock, verify)
    with pytest.raises(Unauthorized) as refusal:
        known.user(None, authorization)
    assert (refusal.value.code, refusal.value.message) == (401, "Unauthorized")


async def test_a_certificate_names_its_user_and_groups(clock: LoopClock) -> None:
    authority = keys.in_memory(clock)
    known = Authenticator(clock, verify)
    shown = der(authority.issue("ann", "devs", "ops"))
    for _ in range(2):  # read, and remembered
        assert known.user(shown) == User("ann", ("devs", "ops", AUTHENTICATED))
    assert known.user(der(authority.admin)) == User("kubewright-admin", ("system:masters", AUTHENTICATED))


async def test_a_certificate_that_cannot_be_read_is_refused(clock: LoopClock) -> None:
    identity = keys.in_memory(clock).issue("ann")
    shown = ssl.PEM_cert_to_DER_cert(keys.odd(identity.certificate, keys.Odd.VERSION).decode())
    with pytest.raises(Unauthorized):
        Authenticator(clock, verify).user(shown)


async def test_a_certificate_comes_before_a_token(clock: LoopClock) -> None:
    known = Authenticator(clock, verify)
    assert known.user(der(keys.in_memory(clock).issue("bob")), "Bearer wrong").name == "bob"


async def test_a_certificate_that_ends_during_a_connection_is_refused(clock: LoopClock) -> None:
    known = Authenticator(clock, verify)
    shown = der(keys.in_memory(clock).issue("ann", lifetime=timedelta(minutes=5)))
    assert known.user(shown).name == "ann"
    await clock.sleep(301)
    with pytest.raises(Unauthorized):
        known.user(shown)


@pytest.mark.parametrize(
    ("method", "path", "public"),
    [
        ("GET", "/healthz", True),
        ("GET", "/livez/ping", True),
        ("HEAD", "/readyz", True),
        ("GET", "/version", True),
        ("GET", "/version/", True),
        ("GET", "/api", True),
        ("GET", "/api/v1", True),
        ("GET", "/apis", True),
        ("GET", "/apis/apps", True),
        ("GET", "/apis/apps/v1", True),
        ("GET", "/openapi/v2", True),
        ("GET", "/openapi/v3/apis/apps/v1", True),
        ("GET", "/", False),
        ("GET", "/metrics", False),
        ("GET", "/healthzz", False),
        ("GET", "/api/v1/nodes", False),
        ("GET", "/api/v1/secrets", False),
        ("GET", "/apis/apps/v1/deployments", False),
        ("GET", "/apis//apps/v1/deployments", False),
        ("POST", "/apis/apps/v1", False),
        ("DELETE", "/healthz", False),
    ],
)
def test_what_is_public(method: str, path: str, public: bool) -> None:
    assert authn.is_public(method, path) is public
    if public:
        authn.refuse_anonymous(ANONYMOUS, method, path)
    else:
        with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
            authn.refuse_anonymous(ANONYMOUS, method, path)
    authn.refuse_anonymous(User("ann", (AUTHENTICATED,)), method, path)


def test_the_anonymous_user_has_no_credentials() -> None:
    with pytest.raises(Unauthorized):
        authn.refuse_anonymous(User(), "GET", "/api/v1/secrets")
