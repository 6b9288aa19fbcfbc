"""When each sort of key is replaced although it is good still: the table of ``pki.keyring``, as moments."""

from datetime import timedelta

import pytest

from kubewright.apiserver.http.pki import RENEWAL as FILES
from kubewright.pki.credentials import HALF, TENTH, THIRD, Renewal
from kubewright.pki.keys import BACKDATED
from kubewright.runtime.webhooks.certificates import RENEWAL as WEBHOOKS
from kubewright.testing.clocks import BEGIN as NOW

DAY, YEAR = timedelta(days=1), timedelta(days=365)


@pytest.mark.parametrize(
    ("renewal", "life", "left"),
    [
        pytest.param(HALF, YEAR, (YEAR + BACKDATED) / 2, id="a kubeconfig at half of its life"),
        pytest.param(THIRD, YEAR, (YEAR + BACKDATED) / 3, id="what an authority signs when a third is left"),
        pytest.param(TENTH, 10 * YEAR, (10 * YEAR + BACKDATED) / 10, id="an authority when a tenth is left"),
        pytest.param(Renewal(margin=DAY / 2), DAY, DAY / 2, id="a short kubeconfig, counted from its end"),
        pytest.param(WEBHOOKS, 90 * DAY, 30 * DAY, id="a webhook's, without the hour that is backdated"),
        pytest.param(FILES, 10 * YEAR, YEAR, id="a file of the embedded server a year before its end"),
    ],
)
def test_it_is_replaced_when_so_much_is_left(renewal: Renewal, life: timedelta, left: timedelta) -> None:
    assert renewal.due(NOW - BACKDATED, NOW + life) == NOW + life - left


@pytest.mark.parametrize(
    ("renewal", "stays"),
    [
        pytest.param(HALF, True, id="a kubeconfig"),
        pytest.param(THIRD, True, id="a leaf"),
        pytest.param(TENTH, False, id="an authority"),
        pytest.param(WEBHOOKS, False, id="a webhook's"),
        pytest.param(FILES, False, id="a file of the embedded server"),
    ],
)
def test_one_that_ends_with_its_authority_stays_if_a_new_one_would_live_no_longer(
    renewal: Renewal, stays: bool
) -> None:
    alone = renewal.due(NOW, NOW + YEAR)
    assert renewal.due(NOW, NOW + YEAR, NOW + YEAR) == (NOW + YEAR if stays else alone)
    assert renewal.due(NOW, NOW + YEAR, NOW + 2 * YEAR) == alone
