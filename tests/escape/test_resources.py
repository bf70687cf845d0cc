"""Programs that take more than their share."""

import pytest

from tests.support.programs import PRELUDE, probe

LANGUAGES = ["python", "typescript"]
KEEPS_NOTHING_BACK = 20_000  # milliseconds: far above any start, far below the limits that the attacks try to outlive
TIMEOUT = 5  # seconds: an interpreter that starts on a busy machine has printed its line by then


EAT_PYTHON = "print('before', flush=True)\nkept = []\nwhile True: kept.append(bytearray(8 << 20))"
EAT_BUFFERS = "console.log('before'); const kept = []; for (;;) kept.push(Buffer.alloc(8 << 20, 1));"
EAT_HEAP = "console.log('before'); const kept = []; for (;;) kept.push({ a: new Array(10).fill(kept.length) });"


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", EAT_PYTHON), ("typescript", EAT_BUFFERS), ("typescript", EAT_HEAP)],
    ids=["python", "typescript buffers", "typescript heap"],
)
async def test_memory_beyond_one_gigabyte_ends_as_out_of_memory(api, language, code):
    result = await api.execute(code, language, 60)
    assert (result["outcome"], result["output"]) == ("out_of_memory", "before\n"), result["stderr"]


async def test_memory_below_one_gigabyte_is_there(api):
    result = await api.python("kept = [bytearray(8 << 20) for _ in range(100)]\nprint(len(kept))")
    assert (result["outcome"], result["output"]) == ("completed", "100\n")


async def test_a_child_that_eats_the_memory_cannot_take_the_supervisor_with_it(api):
    code = """
import os
child = os.fork()
if child == 0:
    kept = []
    while True: kept.append(bytearray(8 << 20))
print("child ended by signal", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = await api.python(code)
    assert result["outcome"] in ("completed", "out_of_memory")
    if result["outcome"] == "completed":
        assert result["output"] == "child ended by signal -9\n"


async def test_files_in_tmpfs_and_heap_together_end_as_out_of_memory(api):
    code = """
def fill(path, megabytes):
    for number in range(megabytes // 10):
        write_file(f"{path}/{number}", "x" * (10 << 20))
fill("/workspace", 480)
fill("/tmp/executions", 90)
print("files fit", flush=True)
kept = [bytearray(8 << 20) for _ in range(100)]
print("heap fits")
"""
    result = await api.python(PRELUDE + code, 60)
    assert (result["outcome"], result["output"]) == ("out_of_memory", "files fit\n")


@pytest.mark.parametrize("path", ["/workspace", "/tmp", "/tmp/executions"])
async def test_files_without_number_end_with_no_space(api, path):
    code = f"""
def create_files(path):
    for number in range(1_000_000):
        try:
            os.close(os.open(f"{{path}}/{{number}}", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            return number, errno.errorcode[error.errno]
tell(create_files({path!r}))
"""
    created, error = await probe(api, code, 60)
    assert error == "ENOSPC"
    assert 20_000 < created <= 128_000


# --- processes ---


async def test_processes_are_stopped_by_the_process_limit(api):
    code = """
import signal
def fork_until_refused():
    for count in range(10_000):
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError as error:
            return count, errno.errorcode[error.errno]
tell(fork_until_refused())
"""
    count, error = await probe(api, code)
    assert error == "EAGAIN"
    assert 200 <= count < 256


FORK_BOMB = """
import os, sys
sys.stdout.write("lit\\n")
while True:
    try: os.fork()
    except OSError: pass
"""
SPAWN_BOMB = """
import { spawn } from 'node:child_process';
console.log('lit');
const bomb = 'while :; do sh -c "$0" "$0" & done';
for (let i = 0; i < 20; i++) spawn('/bin/sh', ['-c', bomb, bomb]).on('error', () => {});
setInterval(() => {}, 1000);
"""


@pytest.mark.parametrize(("language", "code"), [("python", FORK_BOMB), ("typescript", SPAWN_BOMB)], ids=LANGUAGES)
async def test_a_fork_bomb_ends_at_its_timeout(api, language, code):
    result = await api.execute(code, language, TIMEOUT)
    assert result["outcome"] == "timed_out", result
    assert result["output"].startswith("lit\n")
    assert result["executionTime"] < 1000 * TIMEOUT + KEEPS_NOTHING_BACK


async def test_a_thread_bomb_is_stopped_by_the_process_limit(api):
    code = """
import threading
forever = threading.Event()
count = 0
def start_until_refused():
    for count in range(10_000):
        try:
            threading.Thread(target=forever.wait, daemon=True).start()
        except RuntimeError as error:
            return count, str(error)
tell(start_until_refused())
"""
    count, error = await probe(api, code)
    assert error == "can't start new thread"
    assert 200 <= count < 256


async def test_a_bomb_of_worker_threads_ends(api):
    code = """
        import { Worker } from 'node:worker_threads';
        console.log('lit');
        for (let i = 0; i < 2000; i++) new Worker('setInterval(() => {}, 1000)', { eval: true });
    """
    result = await api.typescript(code, TIMEOUT)
    assert result["outcome"] in ("failed", "out_of_memory", "timed_out")
    assert result["output"] == "lit\n"
    assert result["executionTime"] < 1000 * TIMEOUT + KEEPS_NOTHING_BACK


# --- time ---


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "print('partial', flush=True)\nwhile True: pass"),
        ("typescript", "console.log('partial'); for (;;);"),
    ],
    ids=LANGUAGES,
)
async def test_a_busy_loop_ends_at_its_timeout_with_the_partial_output(api, language, code):
    results = [await api.execute(code, language, TIMEOUT) for _ in range(2)]
    assert {(result["outcome"], result["output"]) for result in results} == {("timed_out", "partial\n")}
    # A machine that stands still for a moment does so once.
    assert 1000 * TIMEOUT <= min(result["metrics"]["runMs"] for result in results) < 1000 * TIMEOUT + 2000


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            "python",
            "import signal\n"
            "for n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
            "print('deaf', flush=True)\n"
            "while True: signal.pause()",
        ),
        (
            "typescript",
            "for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']) process.on(name, () => {});\n"
            "console.log('deaf'); setInterval(() => {}, 1000);",
        ),
    ],
    ids=LANGUAGES,
)
async def test_a_program_deaf_to_signals_ends_at_its_timeout(api, language, code):
    result = await api.execute(code, language, TIMEOUT)
    assert (result["outcome"], result["output"]) == ("timed_out", "deaf\n")


async def test_a_stopped_program_ends_at_its_timeout(api):
    code = "import os, signal\nprint('stops', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\nprint('went on')"
    result = await api.python(code, TIMEOUT)
    assert (result["outcome"], result["output"]) == ("timed_out", "stops\n")


ESCAPED_CHILD = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    open("/workspace/alive", "w").close()
    while True:
        os.write(1, b"") and time.sleep(0)
while not os.path.exists("/workspace/alive"):
    time.sleep(0.001)
print("a child lives on")
"""


async def test_a_daemonised_child_neither_delays_the_reply_nor_outlives_it(api):
    result = await api.python(ESCAPED_CHILD)
    assert (result["outcome"], result["output"]) == ("completed", "a child lives on\n")
    assert result["executionTime"] < KEEPS_NOTHING_BACK


async def test_a_detached_child_of_typescript_does_not_delay_the_reply(api):
    code = """
        import { spawn } from 'node:child_process';
        const options = { detached: true, stdio: ['ignore', 'pipe', 'inherit'] } as const;
        const child = spawn('/bin/sh', ['-c', 'echo child; exec tail -f /dev/null'], options);
        await new Promise((heard) => child.stdout.once('data', heard));
        console.log('child lives');
        process.exit(0);
    """
    result = await api.typescript(code)
    assert (result["outcome"], result["output"]) == ("completed", "child lives\n")
    assert result["executionTime"] < KEEPS_NOTHING_BACK
