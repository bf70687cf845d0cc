"""The supervisor's rules that need no container, seen through its protocol."""

from __future__ import annotations

import math
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.engines.runner.frames import PROTOCOL
from tests.unit.runner.supervised import PATIENCE_SECONDS, RUNNER, Supervised, Watched

Start = Callable[..., Supervised]

PRINT_PID = "import os\nprint(os.getpid(), flush=True)\n"
BUSY_LOOP = "while True: pass\n"
ENDLESS_PRINTER = "while True: print('x' * 1000)\n"

# Forks twice and leaves its session; tells the grandchild's pid, which then blocks for ever.
RUNAWAY_GRANDCHILD = """
import os, signal
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write_end, str(os.getpid()).encode())
        signal.pause()
    os._exit(0)
os.wait()
print(os.read(read_end, 100).decode(), flush=True)
"""


def watch_first_pid(supervised: Supervised) -> Watched:
    printed = b""
    while b"\n" not in printed:
        printed += supervised.expect("O").payload
    return Watched(int(printed.split(b"\n")[0]))


class TestOrders:
    def test_ready_names_the_protocol(self, python: Supervised) -> None:
        assert python.expect("R").payload == PROTOCOL

    def test_program_runs_and_its_ending_is_reported(self, python: Supervised) -> None:
        ended = python.run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        assert (ended.stdout, ended.stderr, ended.status) == (b"out\n", b"err\n", 0)
        assert ended.report["ending"] == "exited"
        assert (ended.report["exit_code"], ended.report["signal"]) == (3, None)
        assert (ended.report["stdout_bytes"], ended.report["stderr_bytes"]) == (4, 4)
        assert ended.report["oom_kills"] == 0

    def test_run_order_may_come_before_the_runtime_is_ready(self, start: Start) -> None:
        supervised = start("python", sys.executable)
        supervised.start("print('early')")
        assert supervised.expect("R")
        assert supervised.finish().output == "early\n"

    def test_loading_the_runtime_does_not_count_as_running_time(self, start: Start) -> None:
        supervised = start("python", sys.executable)
        begun = time.monotonic()
        supervised.start("pass")
        supervised.expect("R")
        loaded = time.monotonic() - begun
        ended = supervised.finish()
        assert ended.report["seconds"] <= time.monotonic() - begun - loaded + 0.001

    def test_prepared_files_can_be_imported(self, python: Supervised) -> None:
        python.prepare({"servers/deep/tool.py": "ANSWER = 42\n", "note.txt": "ü"})
        python.prepare({"more.py": "from servers.deep.tool import ANSWER\n"})
        ended = python.run("import more; print(more.ANSWER, open('note.txt').read())")
        assert ended.output == "42 ü\n"

    @pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a//b", "", ".", "a/", "a\0b"])
    def test_prepared_file_outside_the_workspace_is_refused(self, python: Supervised, name: str) -> None:
        python.expect("R")
        python.prepare({name: "text"})
        assert "not a path below the workspace" in python.expect("X").payload.decode()
        assert python.wait() == 70

    def test_unwritable_prepared_file_is_a_fault(self, python: Supervised) -> None:
        python.expect("R")
        python.prepare({"file": "", "file/below": ""})
        assert "cannot write 'file/below'" in python.expect("X").payload.decode()
        assert python.wait() == 70

    @pytest.mark.parametrize(
        ("kind", "payload", "complaint"),
        [
            (b"?", b"", "unknown message kind"),
            (b"P", b"\0\0", "ends too early"),
            (b"P", struct.pack(">I", 1) + b"a", "ends too early"),
            (b"P", struct.pack(">I", 1) + b"a" + struct.pack(">I", 2) + b"t", "ends too early"),
            (b"P", struct.pack(">I", 1) + b"\xff" + struct.pack(">I", 0), "not a path"),
            (b"G", b"", "ends too early"),
            (b"G", struct.pack(">dQQ?", 1, 1, 1, False), "ends too early"),
            (b"G", struct.pack(">dQQ?BI", 1, 1, 1, False, 0, 9) + b"pass", "ends too early"),
            (b"G", struct.pack(">dQQ?BI", 1, 1, 1, False, 0, 3) + b"=c\0", "cannot be set"),
            (b"G", struct.pack(">dQQ?BI", 0, 1, 1, False, 0, 0), "timeout_seconds"),
            (b"G", struct.pack(">dQQ?BI", math.nan, 1, 1, False, 0, 0), "timeout_seconds"),
            (b"G", struct.pack(">dQQ?BI", math.inf, 1, 1, False, 0, 0), "timeout_seconds"),
            (b"G", struct.pack(">dQQ?BI", 1, 1, 1, False, 1, 0), "ends too early"),
            (b"G", struct.pack(">dQQ?BcIQQI", 1, 1, 1, False, 1, b"x", 1, 1, 1, 0), "not known"),
            (b"G", struct.pack(">dQQ?B", 1, 1, 1, False, 2) + 2 * struct.pack(">cIQQ", b"o", 1, 1, 1), "named twice"),
            (b"A", struct.pack(">I", 9) + b"in/a", "ends too early"),
            (b"A", struct.pack(">I", 4) + b"in/\xff", "not a path"),
            (b"A", struct.pack(">I", 4) + b"../a", "not a path below the workspace"),
            (b"K", b"", "nothing runs"),
        ],
    )
    def test_bad_message_is_a_fault(self, python: Supervised, kind: bytes, payload: bytes, complaint: str) -> None:
        python.expect("R")
        python.send(kind, payload)
        assert complaint in python.expect("X").payload.decode()
        assert python.wait() == 70

    def test_oversized_frame_is_refused_before_it_is_read(self, python: Supervised) -> None:
        python.expect("R")
        python.send_bytes(struct.pack(">cI", b"G", 16 * 1024 * 1024 + 1))
        assert "longer than" in python.expect("X").payload.decode()
        assert python.wait() == 70

    def test_frame_may_arrive_byte_by_byte(self, python: Supervised) -> None:
        payload = struct.pack(">I7sI9s", 7, b"slow.py", 9, b"SPEED = 1")
        for byte in struct.pack(">cI", b"P", len(payload)) + payload:
            python.send_bytes(bytes([byte]))
        assert python.run("import slow; print(slow.SPEED)").output == "1\n"

    def test_second_run_order_is_a_fault_and_kills_the_program(self, python: Supervised) -> None:
        python.expect("R")
        python.start(PRINT_PID + BUSY_LOOP)
        with watch_first_pid(python) as program:
            python.start("pass")
            assert [frame.kind for frame in python.frames()][-1] == "X"
            assert python.wait() == 70
            assert program.ended_within(PATIENCE_SECONDS)

    def test_code_much_larger_than_a_pipe_arrives_whole(self, python: Supervised) -> None:
        text = "é" * 2_000_000
        ended = python.run(f"print(len({text!r}))")
        assert ended.output == "2000000\n"

    def test_environment_of_the_message_reaches_the_program_and_its_children(self, python: Supervised) -> None:
        code = "import os, subprocess\nsubprocess.run(['/usr/bin/env'])\nprint(os.environ['GRANT'])"
        ended = python.run(code, environment={"GRANT": "t0ken"})
        lines = ended.output.splitlines()
        assert lines.pop() == "t0ken"
        assert sorted(lines) == [
            "GRANT=t0ken",
            f"HOME={python.workspace}",
            "LANG=C.UTF-8",
            "LOGNAME=runner",
            "MPLBACKEND=agg",
            "MPLCONFIGDIR=/tmp/.matplotlib",
            "OPENBLAS_NUM_THREADS=1",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "TMPDIR=/tmp",
            "USER=runner",
        ]

    def test_wrong_arguments_are_explained(self) -> None:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-B", str(RUNNER / "supervisor.py"), "cobol", "10", "@door"],
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )
        assert ended.returncode == 64
        assert b"typescript, python" in ended.stderr

    def test_runtime_that_dies_before_it_is_ready_is_a_fault_with_its_last_words(self, start: Start) -> None:
        supervised = start("python", "/bin/ls")
        fault = supervised.expect("X").payload.decode()
        assert "runtime ended before it was ready" in fault
        assert supervised.wait() == 70

    def test_runtime_that_dies_while_waiting_is_a_fault(self, python: Supervised) -> None:
        python.expect("R")
        children = Path(f"/proc/{python.process.pid}/task/{python.process.pid}/children").read_text()
        os.kill(int(children), signal.SIGKILL)
        assert "before it was given a program" in python.expect("X").payload.decode()
        assert python.wait() == 70


class TestEndings:
    def test_busy_loop_is_killed_at_its_deadline_with_partial_output(self, python: Supervised) -> None:
        ended = python.run("print('partial', end='')\n" + BUSY_LOOP, timeout_seconds=1)
        assert ended.output == "partial"
        assert ended.report["ending"] == "timed_out"
        assert (ended.report["exit_code"], ended.report["signal"]) == (137, 9)
        assert 1 <= ended.report["seconds"] < 4

    def test_program_that_ignores_signals_is_killed_at_its_deadline(self, python: Supervised) -> None:
        code = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + BUSY_LOOP
        assert python.run(code, timeout_seconds=0.2).report["ending"] == "timed_out"

    def test_death_by_signal_is_reported_with_the_signal(self, python: Supervised) -> None:
        ended = python.run("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
        assert ended.report["ending"] == "exited"
        assert (ended.report["exit_code"], ended.report["signal"]) == (143, 15)

    def test_program_that_kills_itself_is_not_out_of_memory(self, python: Supervised) -> None:
        ended = python.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert (ended.report["ending"], ended.report["exit_code"]) == ("exited", 137)

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_a_flood_ends_the_program_and_leaves_exactly_the_limit(self, python: Supervised, stream: str) -> None:
        code = f"import sys\nwhile True: sys.{stream}.write('0123456789')"
        ended = python.run(code, max_output_bytes=100_003, flood_bytes=1_000_000)
        assert ended.report["ending"] == "output_limit"
        printed, dropped = getattr(ended, stream), ended.report[f"{stream}_dropped_bytes"]
        assert len(printed) == ended.report[f"{stream}_bytes"] <= 100_003
        assert 900_000 - 100_003 < dropped < 1_200_000
        head, tail = re.fullmatch(
            rb"(\d+)\n\[\xe2\x80\xa6 %d bytes dropped \xe2\x80\xa6\]\n(\d+)" % dropped, printed
        ).groups()
        assert (len(head), len(tail) > 19_000) == (100_003 - 20_000, True)

    def test_a_program_goes_on_beyond_the_limit_and_what_is_over_is_counted(self, python: Supervised) -> None:
        ended = python.run("print('x' * 5000)\nimport sys\nsys.exit(3)", max_output_bytes=1000)
        assert (ended.report["ending"], ended.exit_code, len(ended.stdout) <= 1000) == ("exited", 3, True)
        dropped = ended.report["stdout_dropped_bytes"]
        assert ended.output.startswith(f"{'x' * 800}\n[… {dropped} bytes dropped …]\nxxx")

    def test_of_a_small_limit_only_the_beginning_is_kept(self, python: Supervised) -> None:
        ended = python.run("print('x' * 5000)", max_output_bytes=100)
        assert (ended.output, ended.report["stdout_dropped_bytes"]) == ("x" * 100, 4901)

    def test_the_end_of_what_is_too_long_is_kept(self, python: Supervised) -> None:
        code = "for n in range(20_000): print('row', n)\nprint('RESULT: 42')\nraise ValueError('the reason')"
        ended = python.run(code, max_output_bytes=10_000)
        assert ended.output.startswith("row 0\nrow 1\n")
        assert ended.output.endswith("\nrow 19999\nRESULT: 42\n")
        assert len(ended.stdout) <= 10_000
        printed = len("".join(f"row {n}\n" for n in range(20_000)) + "RESULT: 42\n")
        gap = re.search(r"\n\[… (\d+) bytes dropped …\]\n", ended.output)
        assert len(ended.stdout) - len(gap[0].encode()) + int(gap[1]) == printed

    def test_a_character_is_not_cut_where_the_end_begins(self, python: Supervised) -> None:
        ended = python.run("print('é€𝄞' * 50_000, end='')", max_output_bytes=5000)
        _, _, tail = ended.stdout.partition("…]\n".encode())
        assert tail.decode().endswith("é€𝄞")

    def test_output_of_exactly_the_limit_loses_nothing(self, python: Supervised) -> None:
        ended = python.run("print('x' * 99, flush=True)", max_output_bytes=100)
        assert (ended.report["ending"], len(ended.stdout), ended.report["stdout_dropped_bytes"]) == ("exited", 100, 0)

    def test_a_flood_of_exactly_its_limit_is_none(self, python: Supervised) -> None:
        ended = python.run("print('x' * 99, flush=True)", max_output_bytes=10, flood_bytes=100)
        assert ended.report["ending"] == "exited"

    def test_one_byte_more_is_a_flood_even_if_the_program_has_exited(self, python: Supervised) -> None:
        ended = python.run("print('x' * 100)", max_output_bytes=10, flood_bytes=100)
        assert ended.report["ending"] == "output_limit"

    def test_limit_of_one_stream_leaves_the_other_alone(self, python: Supervised) -> None:
        code = "import sys\nprint('o' * 50)\nsys.stderr.write('e' * 5000)"
        ended = python.run(code, max_output_bytes=100)
        assert ended.report["ending"] == "exited"
        assert (len(ended.stdout), len(ended.stderr) <= 100) == (51, True)
        assert (ended.report["stdout_dropped_bytes"], ended.report["stderr_dropped_bytes"]) == (0, 4900)

    def test_no_output_at_all_may_be_allowed(self, python: Supervised) -> None:
        assert python.run("pass", max_output_bytes=0).report["ending"] == "exited"

    def test_output_is_forwarded_while_the_program_runs(self, python: Supervised) -> None:
        python.expect("R")
        python.start(PRINT_PID + "import signal\nsignal.pause()")
        with watch_first_pid(python) as program:
            os.kill(program.pid, signal.SIGUSR1)
        assert python.finish().report["signal"] == signal.SIGUSR1

    def test_background_child_does_not_hold_up_the_ending(self, python: Supervised) -> None:
        ended = python.run("import subprocess\nprint(subprocess.Popen(['/bin/sleep', '300']).pid)")
        assert ended.report["ending"] == "exited"
        assert ended.report["seconds"] < 10
        assert not Path(f"/proc/{int(ended.output)}").exists()

    def test_grandchild_in_its_own_session_does_not_survive_the_program(self, python: Supervised) -> None:
        python.expect("R")
        python.start(RUNAWAY_GRANDCHILD + BUSY_LOOP, timeout_seconds=1.0)
        with watch_first_pid(python) as grandchild:
            assert python.finish().report["ending"] == "timed_out"
            assert grandchild.ended_within(PATIENCE_SECONDS)

    def test_orphans_are_reaped_while_the_program_runs(self, python: Supervised) -> None:
        code = (
            "import os, select\n"
            "read_end, write_end = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    if os.fork() == 0:\n"
            "        os.write(write_end, str(os.getpid()).encode())\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "orphan = int(os.read(read_end, 100))\n"
            "deadline = __import__('time').monotonic() + 10\n"
            "while os.path.exists(f'/proc/{orphan}') and __import__('time').monotonic() < deadline:\n"
            "    os.sched_yield()\n"
            "print(os.path.exists(f'/proc/{orphan}'))\n"
        )
        assert python.run(code).output == "False\n"

    def test_processes_of_others_survive(self, python: Supervised) -> None:
        with subprocess.Popen(["/bin/sleep", "300"]) as neighbour:
            try:
                assert python.run(BUSY_LOOP, timeout_seconds=0.1).report["ending"] == "timed_out"
                assert neighbour.poll() is None
            finally:
                neighbour.kill()

    def test_cpu_time_and_memory_are_reported(self, python: Supervised) -> None:
        code = (
            "import time\nblock = bytearray(64_000_000)\n"
            "while time.process_time() < 0.3: pass\n"
            "import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass'])"
        )
        report = python.run(code).report
        assert 0.4 < report["cpu_seconds"] < 5
        assert 64_000_000 < report["max_rss_bytes"] < 640_000_000


class TestLeash:
    def test_supervisor_and_program_end_when_the_leash_is_let_go(self, python: Supervised) -> None:
        python.expect("R")
        python.start(PRINT_PID + BUSY_LOOP)
        with watch_first_pid(python) as program:
            python.let_go()
            assert python.wait() == 71
            assert program.ended_within(PATIENCE_SECONDS)

    def test_waiting_sandbox_ends_when_the_leash_is_let_go(self, python: Supervised) -> None:
        python.expect("R")
        python.let_go()
        assert python.wait() == 71

    def test_leash_let_go_while_the_runtime_loads_ends_it(self, python: Supervised) -> None:
        python.let_go()
        assert python.wait() == 71

    def test_runaway_grandchild_ends_with_the_leash(self, python: Supervised) -> None:
        python.expect("R")
        python.start(RUNAWAY_GRANDCHILD + BUSY_LOOP)
        with watch_first_pid(python) as grandchild:
            python.let_go()
            assert python.wait() == 71
            assert grandchild.ended_within(PATIENCE_SECONDS)

    def test_waiting_sandbox_ends_with_its_lifetime(self, start: Start) -> None:
        supervised = start("python", sys.executable, lifetime_seconds=0.5)
        assert supervised.wait() == 72

    def test_running_program_ends_with_the_lifetime(self, start: Start) -> None:
        supervised = start("python", sys.executable, lifetime_seconds=5.0)
        supervised.expect("R")
        supervised.start(PRINT_PID + BUSY_LOOP)
        with watch_first_pid(supervised) as program:
            assert supervised.wait() == 72
            assert program.ended_within(PATIENCE_SECONDS)

    def test_stuck_reader_does_not_stop_the_deadline(self, python: Supervised) -> None:
        python.expect("R")
        python.start(PRINT_PID + ENDLESS_PRINTER, timeout_seconds=2, max_output_bytes=10**9, flood_bytes=10**10)
        with watch_first_pid(python) as program:
            assert program.ended_within(PATIENCE_SECONDS)
        ended = python.finish()
        assert ended.report["ending"] == "timed_out"
        assert ended.report["stdout_bytes"] < 2_000_000

    def test_stuck_reader_does_not_stop_the_leash(self, python: Supervised) -> None:
        python.expect("R")
        python.start(PRINT_PID + ENDLESS_PRINTER, max_output_bytes=10**9, flood_bytes=10**10)
        with watch_first_pid(python) as program:
            python.let_go()
            assert python.wait() == 71
            assert program.ended_within(PATIENCE_SECONDS)

    def test_stuck_reader_does_not_stop_the_lifetime(self, start: Start) -> None:
        supervised = start("python", sys.executable, lifetime_seconds=1.0)
        supervised.start(ENDLESS_PRINTER, max_output_bytes=10**9, flood_bytes=10**10)
        assert supervised.wait() == 72

    def test_slow_reader_gets_all_output(self, python: Supervised) -> None:
        python.expect("R")
        code = "import sys\nprint('begun')\nfor n in range(3000): sys.stdout.write(f'{n:0999}\\n')"
        python.start(code, max_output_bytes=10**7, flood_bytes=10**8)
        assert python.expect("O").payload.startswith(b"begun")
        # Nothing is read until the program stands still in front of a full pipe and a full outbox.
        (program,) = Path(f"/proc/{python.process.pid}/task/{python.process.pid}/children").read_text().split()
        wait_until_blocked_in_write(int(program))
        ended = python.finish()
        assert ended.report["stdout_bytes"] == 3_000_006
        assert ended.stdout.endswith(f"{2999:0999}\n".encode())


def wait_until_blocked_in_write(pid: int) -> None:
    """Bounded: the program's CPU time stands still only when nobody takes its output."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if "pipe_write" in Path(f"/proc/{pid}/wchan").read_text():
            return
        os.sched_yield()
    raise AssertionError("the program was never held up")


class TestShield:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
    def test_signals_do_not_end_the_supervisor(self, python: Supervised, number: signal.Signals) -> None:
        python.expect("R")
        code = f"import os\nos.kill(os.getppid(), {int(number)})\nprint('sent')"
        ended = python.run(code)
        assert (ended.output, ended.status) == ("sent\n", 0)

    def test_flood_of_child_signals_does_not_stop_the_deadline(self, python: Supervised) -> None:
        code = "import os, signal\nwhile True: os.kill(os.getppid(), signal.SIGCHLD)"
        assert python.run(code, timeout_seconds=0.3).report["ending"] == "timed_out"

    def test_program_has_no_descriptors_but_its_streams(self, python: Supervised) -> None:
        code = (
            "import os\nlisting = os.open('/proc/self/fd', os.O_RDONLY)\n"
            "names = sorted(int(name) for name in os.listdir(listing))\n"
            "print([(n, os.readlink(f'/proc/self/fd/{n}').split(':')[0]) for n in names if n < listing])\n"
            "print(len([n for n in names if n > listing]) <= 1)"
        )
        listed, nothing_above = python.run(code).output.splitlines()
        assert listed == "[(0, '/dev/null'), (1, 'pipe'), (2, 'pipe')]"
        assert nothing_above == "True"

    def test_program_leads_a_session_of_its_own_at_low_priority(self, python: Supervised) -> None:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        code = "import os\nprint(os.getsid(0) == os.getpid(), os.getpriority(os.PRIO_PROCESS, 0))"
        assert python.run(code).output == f"True {min(19, before + 10)}\n"

    def test_program_is_the_first_choice_of_the_oom_killer(self, python: Supervised) -> None:
        assert python.run("print(open('/proc/self/oom_score_adj').read())").output.strip() == "1000"

    def test_program_starts_with_default_signals(self, python: Supervised) -> None:
        code = "import subprocess\nsubprocess.run(['/bin/grep', '-E', '^Sig(Ign|Blk)', '/proc/self/status'])"
        masks = [int(line.split()[1], 16) for line in python.run(code).output.splitlines()]
        # posix_spawn() leaves the two signals that libc keeps for its threads ignored; they are not for programs.
        of_libc = 1 << 31 | 1 << 32
        assert [mask & ~of_libc for mask in masks] == [0, 0]

    def test_supervisor_is_not_dumpable_but_the_program_is(self, python: Supervised) -> None:
        ask = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
        shielded = f"import sys; sys.path.insert(0, {str(RUNNER)!r})\n"
        shielded += f"from supervision import shield; shield.raise_shield(); {ask}"
        supervisor = subprocess.run([sys.executable, "-c", shielded], capture_output=True, check=True)
        assert supervisor.stdout == b"0\n"
        assert python.run(ask).output == "1\n"
