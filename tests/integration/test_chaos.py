"""A short run of the chaos that `make chaos` runs at length."""

import pytest

from bench.chaos import chaos

ROUNDS = 5


@pytest.mark.timeout(400)
async def test_a_daemon_killed_at_random_leaves_no_orphan_and_a_truthful_journal():
    report = await chaos(ROUNDS, seed=20)
    assert report.rounds == ROUNDS
    assert (report.still_running, report.still_there, report.untruthful) == ([], [], [])
    assert report.interrupted > 0, "no execution was under way at any kill, so the run proved nothing"
