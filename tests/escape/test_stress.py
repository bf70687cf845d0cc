"""stress-ng in one caller's sandbox, ordinary programs in another's; docs/figures.md tells how much slower they get."""

import pytest

from bench.testbed.engine import containers_of
from tests.support.installation import Installation
from tests.support.stress import IMAGE, STRESSORS, WORKERS, StressNgMissing, ensure_image, stressed

pytestmark = pytest.mark.timeout(600)  # the first of them builds the image
SECONDS = 3
LEAST_PROGRAMS = 5


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """With the image that has stress-ng in place of the usual one."""
    try:
        ensure_image()
    except StressNgMissing as missing:
        pytest.skip(f"stress-ng cannot be installed into a copy of the runner image: {missing}")
    return Installation.create(tmp_path_factory.mktemp("stress"), runner_image=IMAGE)


@pytest.fixture(scope="module")
async def api(installation):
    async with installation.run() as api:
        yield api
    assert containers_of(installation.owner) == []


@pytest.fixture
async def attacker(api, installation):
    async with api.as_caller(installation.keys["developer"]) as attacker:
        yield attacker


async def ordinary_programs_until_it_is_over(api, stress):
    """Both languages in turn."""
    number = 0
    while number < LEAST_PROGRAMS or not stress.over:
        python, typescript = f"print({number} * 2)", f"console.log({number} * 2)"
        result = await (api.typescript(typescript) if number % 2 else api.python(python))
        assert (result["outcome"], result["output"], result["stderr"]) == ("completed", f"{number * 2}\n", ""), result
        number += 1


@pytest.mark.parametrize("stressors", [*((each,) for each in STRESSORS), STRESSORS], ids="+".join)
async def test_stress_in_one_sandbox_leaves_another_caller_right_answers_and_the_daemon_healthy(
    api, attacker, stressors
):
    seconds = SECONDS if len(stressors) == 1 else 3 * SECONDS  # together they share the sandbox's one CPU
    async with stressed(attacker, stressors, seconds) as stress:
        assert not stress.over
        await ordinary_programs_until_it_is_over(api, stress)
        assert (await api.get("/readyz"))[0] == 200
        operations = await stress.operations()
    assert operations.keys() == set(stressors)
    assert all(operations.values()), operations


async def test_stress_of_the_hosts_disks_is_refused(attacker):
    """The stressor io flushes the file systems of the whole machine; it gives up at the first refusal."""
    async with stressed(attacker, ("io",), SECONDS) as stress:
        assert (await stress.operations())["io"] <= WORKERS


async def test_stress_that_is_cancelled_leaves_nothing_behind(api, attacker):
    async with stressed(attacker, STRESSORS, seconds=60) as stress:
        assert (await api.python("print('beside')"))["output"] == "beside\n"
        assert not stress.over
