"""A wall clock that leaps, ahead and back: a control plane goes on, and in the end every certificate of it is good."""

from datetime import timedelta

import pytest
from tests.api.controlplanes.kit import NAMES, Stage, stage
from tests.api.controlplanes.test_authority_rotation import AUTHORITIES, ask, bundles
from tests.api.controlplanes.test_whole_planes import COMPONENTS, create, whole

from kubewright.api.core import SECRET
from kubewright.kube.config import inline_access
from kubewright.pki.facts import facts_of

HOURS, DAYS = timedelta(hours=1), timedelta(days=1)


class Leaping:
    """The wall clock of a stage, which a test sets ahead or back."""

    def __init__(self, on: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead, self._true = timedelta(), on.clock.now
        monkeypatch.setattr(on.clock, "now", lambda: self._true() + self.ahead)


async def secrets(on: Stage) -> dict[str, str]:
    """The versions of all Secrets, by name."""
    found = await on.client.list(SECRET, "default")
    return {each.name: each.metadata.resource_version for each in found}


async def runs(on: Stage) -> list[object]:
    """What the components say of what runs."""
    found = [await on.status(NAMES[each], f"demo-{each.lower()}") for each in COMPONENTS]
    return [(each.phase, each.ready_replicas, each.certificates) for each in found]


async def wrong_now(on: Stage) -> dict[str, object]:
    """The certificates that are not valid now, in Secrets and kubeconfigs, with their times."""
    found: dict[str, object] = {}
    for secret in await on.client.list(SECRET, "default"):
        certificates = [secret.data["tls.crt"]] if "BEGIN CERT" in str(secret.data.get("tls.crt")) else []
        if "value" in secret.data:
            certificates.append(inline_access(secret.data["value"]).certificate)
        for each in map(facts_of, certificates):
            if not each.not_before <= on.clock.now() < each.not_after:
                found[secret.name] = each.not_before, each.not_after
    return found


@pytest.mark.parametrize(
    "leaps",
    [
        pytest.param([HOURS], id="an hour ahead"),
        pytest.param([-HOURS], id="an hour back"),
        pytest.param(
            [DAYS, timedelta(), -DAYS / 48, timedelta()], id="a day ahead, back, behind, and right again"
        ),
    ],
)
async def test_a_leap_makes_no_certificate_and_replaces_no_instance(
    leaps: list[timedelta], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as on:
        clock = Leaping(on, monkeypatch)
        await create(on, *COMPONENTS)
        await whole(on)
        before = await secrets(on), await runs(on)
        for clock.ahead in leaps:
            await on.clock.sleep(4000)
            assert (await secrets(on), await runs(on)) == before


async def test_what_was_renewed_in_a_time_that_was_not_is_renewed_again_in_the_true_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage() as on:
        clock = Leaping(on, monkeypatch)
        await create(on, *COMPONENTS)
        await whole(on)
        authorities = await bundles(on)
        clock.ahead = 350 * DAYS
        await on.clock.sleep(4000)
        renewed = await secrets(on)
        clock.ahead = timedelta()
        assert len(await wrong_now(on)) >= 3
        await on.clock.sleep(4000)
        await whole(on)
        assert await wrong_now(on) == {}
        assert await bundles(on) == authorities
        assert {each for each, version in (await secrets(on)).items() if version == renewed[each]} >= set(
            AUTHORITIES
        )


async def test_a_rotation_that_began_in_a_time_that_was_not_ends_with_authorities_that_are_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage() as on:
        clock = Leaping(on, monkeypatch)
        await create(on, *COMPONENTS)
        await whole(on)
        before = await bundles(on)
        clock.ahead = 2 * DAYS
        await ask(on, stopBefore="Signing")
        await on.until(lambda: _trusts_both(on))
        clock.ahead = timedelta()
        await ask(on, stopBefore="Never")
        await on.until(lambda: _replaced(on, before), 8000)
        await whole(on)
        assert await wrong_now(on) == {}


async def _trusts_both(on: Stage) -> bool:
    return all(len(each) == 2 for each in (await bundles(on)).values())


async def _replaced(on: Stage, before: dict[str, list[bytes]]) -> bool:
    now = await bundles(on)
    return all(len(now[each]) == 1 and now[each] != before[each] for each in before)
