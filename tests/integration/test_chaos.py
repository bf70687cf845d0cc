"""A short run of the chaos that `make chaos` runs at length."""

import pytest

from tests.chaos.rounds import run_rounds

ROUNDS = 5
SEED = 26  # with it, calls are under way at several of the kills


@pytest.mark.timeout(400)
async def test_a_daemon_killed_at_random_leaves_no_orphan_and_a_truthful_journal():
    report = await run_rounds(ROUNDS, seed=SEED)
    assert report.rounds == ROUNDS
    assert (report.still_running, report.still_there, report.untruthful) == ([], [], [])
    assert report.interrupted > 0, "no execution was under way at any kill, so the run proved nothing"
    assert report.calls_in_flight > 0, "no tool call was under way at any kill, so the ledgers proved nothing"
