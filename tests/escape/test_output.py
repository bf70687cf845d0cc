"""Programs that print too much, or something else than text."""

import json
import re
import struct

import pytest

from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation

LIMIT = 100 * 1024
MIB = 1024 * 1024
FLOOD = 16 * MIB

PRINTERS = {
    "python": "import sys\nwhile True: sys.{stream}.write('x' * 1000)",
    "typescript": "for (;;) process.{stream}.write('x'.repeat(1000));",
}


def assert_two_ends_of_x(printed: str) -> None:
    assert re.fullmatch(r"x{80000,}\n\[… \d+ bytes dropped …\]\nx{19000,}", printed), printed[:100]
    assert len(printed.encode()) <= LIMIT


@pytest.mark.parametrize("language", PRINTERS)
async def test_an_endless_printer_ends_as_output_limit_and_leaves_both_ends_of_100_kilobytes(api, language):
    result = await api.execute(PRINTERS[language].format(stream="stdout"), language)
    assert (result["outcome"], result["truncated"]) == ("output_limit", True)
    assert_two_ends_of_x(result["output"])


@pytest.mark.parametrize("language", PRINTERS)
async def test_an_endless_printer_of_errors_ends_the_same_way(api, language):
    result = await api.execute(PRINTERS[language].format(stream="stderr"), language)
    assert (result["outcome"], result["truncated"], result["output"]) == ("output_limit", True, "")
    assert_two_ends_of_x(result["stderr"])


@pytest.mark.parametrize("over", [0, 1, 5 * MIB])
async def test_what_is_over_the_limit_is_dropped_and_counted_and_the_program_finishes(api, over):
    result = await api.python(f"import sys; sys.stdout.write('x' * {LIMIT + over}); sys.exit(7)")
    assert (result["outcome"], result["exitCode"], result["truncated"]) == ("failed", 7, over > 0)
    assert LIMIT - 500 < result["outputBytes"] <= LIMIT
    assert over <= result["metrics"]["droppedBytes"] < over + 500


@pytest.mark.parametrize(("size", "outcome"), [(FLOOD, "completed"), (FLOOD + 1, "output_limit")])
async def test_a_flood_is_told_to_the_byte(api, size, outcome):
    result = await api.python(f"import sys; sys.stdout.write('x' * {size})")
    assert result["outcome"] == outcome
    assert LIMIT - 500 < result["outputBytes"] <= LIMIT


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys; sys.stdout.write('x' * 100_000_000)"),
        ("typescript", "process.stdout.write('x'.repeat(100_000_000))"),
    ],
    ids=["python", "typescript"],
)
async def test_one_line_of_100_megabytes_ends_as_output_limit(api, language, code):
    result = await api.execute(code, language)
    assert result["outcome"] == "output_limit"
    assert_two_ends_of_x(result["output"])


async def test_the_daemons_memory_stays_flat_while_programs_print_without_end(tmp_path):
    code = PRINTERS["python"].format(stream="stdout")
    async with DaemonProcess.running(Installation.create(tmp_path)) as daemon:
        for _ in range(5):
            assert (await daemon.api.python(code))["outcome"] == "output_limit"
        before = await daemon.resting_bytes()
        for _ in range(5):
            assert (await daemon.api.python(code))["outcome"] == "output_limit"
        assert daemon.peak_bytes() - before < 8 * MIB


async def test_bytes_that_are_no_text_survive_as_valid_json(api):
    printed = b"\xff\xfe invalid \x1b[31mred\x1b[0m \x00 \xed\xa0\x80 \r\n" + bytes(range(256))
    async with api.session.post(
        f"{api.url}/execute", json={"code": f"import sys; sys.stdout.buffer.write({printed!r})", "language": "python"}
    ) as response:
        raw = await response.read()
    result = json.loads(raw.decode("utf-8", "strict"))
    assert result["outcome"] == "completed"
    assert result["output"] == printed.decode("utf-8", "replace")
    assert "\x1b[31mred" in result["output"]
    assert result["outputBytes"] == len(printed)


async def test_the_raw_bytes_can_be_read_back_unchanged(api):
    printed = bytes(range(256)) * 4
    result = await api.python(f"import sys; sys.stdout.buffer.write({printed!r})")
    async with api.session.get(f"{api.url}/executions/{result['executionId']}/output") as response:
        assert (response.status, await response.read()) == (200, printed)


async def test_a_character_cut_by_the_limit_is_left_out(api):
    result = await api.python("import sys; sys.stdout.write('x' + '€' * 50_000)")
    assert (result["outcome"], result["truncated"]) == ("completed", True)
    head, tail = re.split(r"\n\[… \d+ bytes dropped …\]\n", result["output"])
    assert set(head[1:]) | set(tail) <= {"€", "\ufffd"}
    assert tail == "€" * len(tail)


# --- forgeries ---

DONE = json.dumps(
    {
        "ending": "exited",
        "exit_code": 0,
        "signal": None,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "seconds": 0.1,
        "cpu_seconds": 0.1,
        "max_rss_bytes": 1,
        "stdout_dropped_bytes": 0,
        "stderr_dropped_bytes": 0,
        "oom_kills": 0,
    }
).encode()
RUNNER_FRAMES = b"".join(struct.pack(">cI", kind, len(DONE)) + DONE for kind in (b"D", b"X", b"R", b"V"))
ENGINE_FRAME = struct.pack(">BxxxI", 1, len(RUNNER_FRAMES)) + RUNNER_FRAMES


@pytest.mark.parametrize("forged", [RUNNER_FRAMES, ENGINE_FRAME], ids=["runner frames", "engine frame"])
async def test_forged_frames_stay_output_and_do_not_change_the_ending(api, forged):
    code = f"import os\nfor fd in (1, 2): os.write(fd, {forged!r})\nos._exit(3)"
    result = await api.python(code)
    assert (result["outcome"], result["exitCode"]) == ("failed", 3)
    assert result["output"] == result["stderr"] == forged.decode("utf-8", "replace")


async def test_no_other_descriptor_is_open_for_a_forgery(api):
    code = """
import os
def kind(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
    except OSError: return None
print({fd: kind(fd) for fd in map(int, os.listdir("/proc/self/fd")) if kind(fd) not in (None, "/proc/self/fd")})
"""
    result = await api.python(code)
    descriptors = eval(result["output"])
    assert descriptors[0] == "/dev/null"
    assert (descriptors[1], descriptors[2]) == ("pipe", "pipe")
    assert [fd for fd, target in descriptors.items() if fd > 2 and "/proc" not in target] == []


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import os; os._exit(137)", 137),
        ("import os; os._exit(124)", 124),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os; os.abort()", 134),
        ("import os; os.kill(0, 15)", 143),
        ("import os\nif os.fork() == 0: os._exit(0)\nos.wait(); os._exit(5)", 5),
    ],
    ids=["like out of memory", "like a timeout", "SIGKILL by itself", "abort", "SIGTERM to its group", "child exits 0"],
)
async def test_exit_codes_fake_no_other_outcome(api, code, exit_code):
    result = await api.python(code)
    assert (result["outcome"], result["exitCode"]) == ("failed", exit_code)


async def test_output_like_a_result_is_only_output(api):
    forged = json.dumps({"outcome": "completed", "exitCode": 0, "output": "forged"})
    result = await api.typescript(f"console.log({forged!r}); process.exit(4)")
    assert (result["outcome"], result["exitCode"], result["output"]) == ("failed", 4, f"{forged}\n")


async def test_output_like_events_stays_inside_its_event(api):
    code = 'print(\'\\n\\nevent: result\\ndata: {"outcome": "forged"}\\n\\n\')'
    events = [event async for event in api.stream(code, "python")]
    assert [name for name, _ in events].count("result") == 1
    assert events[-1][1]["outcome"] == "completed"
    assert "".join(fields["text"] for name, fields in events if name == "stdout") == events[-1][1]["output"]
