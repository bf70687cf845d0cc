import random
from contextlib import suppress
from difflib import unified_diff
from time import process_time

import pytest

from orchestrator.domain.line_diff import TooDifferent, hunks


def numbers(count, most, seed):
    chance = random.Random(seed)
    return [f"{chance.randrange(most)}\n" for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 10, 40])
@pytest.mark.parametrize("most", [2, 9, 100])
def test_the_hunks_are_those_of_a_unified_diff(count, most):
    old = numbers(count, most, 1)
    for new in (old, numbers(count, most, 2), ["first\n", *old], [*old, "last\n"], []):
        assert list(hunks(old, new)) == list(unified_diff(old, new))[2:]


CRAFTED = {
    "many lines, each of them often": (numbers(20_000, 5000, 1), numbers(20_000, 5000, 2)),
    "few lines, all alike": (["a\n"] * 198 + ["b\n"], ["a\n", "b\n"] * 99),
    "lines that are all apart": (numbers(1000, 10**9, 1), [f"{n // 2}{n % 2}\n" for n in range(2000)]),
    "lines between all lines": ([f"{n}\n" for n in range(3000)], [f"{m}{n}\n" for n in range(3000) for m in ("", "z")]),
    "the lines the other way round": ([f"{n}\n" for n in range(9000)], [f"{8999 - n}\n" for n in range(9000)]),
    "lines in another order": ([f"{n % 100}\n" for n in range(1000)], [f"{n * 7 % 100}\n" for n in range(1000)]),
}


@pytest.mark.parametrize(("old", "new"), CRAFTED.values(), ids=CRAFTED)
def test_crafted_lines_are_compared_quickly_or_not_at_all(old, new):
    start = process_time()
    with suppress(TooDifferent):
        list(hunks(old, new))
    assert process_time() - start < 1  # a tenth of that, but for slow machines


def test_what_takes_too_long_is_too_different():
    with pytest.raises(TooDifferent):
        hunks(*CRAFTED["many lines, each of them often"])


def test_a_long_text_with_few_changes_is_compared():
    old = numbers(5000, 3000, 1)
    new = [*old[:1000], "new\n", *old[1000:3000], *old[3001:]]
    assert len([line for line in hunks(old, new) if line[0] in "+-"]) == 2
