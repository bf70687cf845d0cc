"""A small version of the load that `make figures` measures."""

import pytest

from tests.load.fairness import fairness
from tests.load.storm import storm

REQUESTS = 200


@pytest.mark.timeout(600)
async def test_no_reply_is_lost_or_mixed_up_when_all_come_at_once():
    report = await storm(REQUESTS)
    assert report.statuses == {200: REQUESTS}
    assert (report.lost, report.wrong, report.duplicated) == (0, 0, 0)
    assert report.growth_mb < 100


@pytest.mark.timeout(300)
async def test_a_crowd_of_one_caller_does_not_keep_another_waiting():
    report = await fairness(crowd=60, late=12)
    assert report.share > 0.4  # first come, first served would give 12 of 72
