"""Which skills are suggested to be retired."""

from dataclasses import replace

import pytest

from orchestrator.domain.skills import SkillState
from orchestrator.service.skills import suggestions
from tests.support.skills import built_in, skill

DAY = 24 * 3600.0
NOW = 1000 * DAY


def suggested(state, **fields):
    usual = {"created_at": NOW - DAY, "approved_at": None}
    return suggestions([replace(skill(state=state), **{**usual, **fields})], NOW)


def test_a_draft_that_nobody_mended_for_a_month_is_suggested():
    assert suggested(SkillState.DRAFT, created_at=NOW - 31 * DAY) == ["count_orders: it has been a draft for 31 days."]
    assert suggested(SkillState.DRAFT, created_at=NOW - 29 * DAY) == []


@pytest.mark.parametrize("since", ["last_used_at", "approved_at", "created_at"])
def test_what_nobody_used_for_three_months_is_suggested(since):
    told = suggested(SkillState.APPROVED, **{since: NOW - 91 * DAY})
    assert told == ["count_orders: nobody has used it for 91 days."]
    assert suggested(SkillState.APPROVED, **{since: NOW - 89 * DAY}) == []


def test_the_last_use_counts_more_than_how_old_it_is():
    old = {"created_at": NOW - 500 * DAY, "approved_at": NOW - 400 * DAY}
    assert suggested(SkillState.APPROVED, **old, last_used_at=NOW - DAY) == []


@pytest.mark.parametrize(("uses", "failures", "is_told"), [(5, 3, True), (4, 4, False), (10, 5, False), (0, 0, False)])
def test_what_fails_more_often_than_not_is_suggested(uses, failures, is_told):
    told = suggested(SkillState.PROVEN, uses=uses, failures=failures)
    assert told == [f"count_orders: it failed {failures} of {uses} times."] * is_told


def test_what_is_retired_or_came_along_is_never_suggested():
    unused = {"uses": 100, "failures": 100}
    came_along = replace(built_in(), **unused)
    assert suggestions([came_along], NOW) == []
    assert suggestions([replace(skill(state=SkillState.RETIRED), **unused)], NOW) == []
