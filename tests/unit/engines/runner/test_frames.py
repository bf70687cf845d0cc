import struct

import pytest

from orchestrator.domain.execution import Outcome
from orchestrator.domain.files import FileLimits, Place, Why
from orchestrator.domain.sandbox import Program
from orchestrator.engines.docker.attach import EngineStreamDecoder
from orchestrator.engines.runner.frames import (
    MAX_FRAME_BYTES,
    FoundFile,
    Frame,
    FrameKind,
    FramingBroken,
    MissedFile,
    RunnerFrameDecoder,
    encode_files,
    encode_run,
    found_file,
    missed_file,
)
from orchestrator.engines.runner.session import ending_of
from tests.support.samples import limits

DONE = {
    "ending": "exited",
    "exit_code": 0,
    "signal": None,
    "cpu_seconds": 0.1,
    "max_rss_bytes": 1,
    "stdout_dropped_bytes": 0,
    "stderr_dropped_bytes": 0,
}


def frame(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">cI", kind, len(payload)) + payload


def engine_chunk(descriptor: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxI", descriptor, len(payload)) + payload


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_both_framings_survive_any_cut(step):
    stream = engine_chunk(1, frame(b"O", b"hello")[:6]) + engine_chunk(2, b"complaint")
    stream += engine_chunk(1, frame(b"O", b"hello")[6:] + frame(b"E", b""))
    engine, runner = EngineStreamDecoder(), RunnerFrameDecoder()
    frames, complaint = [], b""
    for start in range(0, len(stream), step):
        for descriptor, piece in engine.feed(stream[start : start + step]):
            if descriptor == 1:
                frames += runner.feed(piece)
            else:
                complaint += piece
    assert frames == [Frame(FrameKind.STDOUT, b"hello"), Frame(FrameKind.STDERR, b"")]
    assert complaint == b"complaint"


def test_an_oversized_frame_is_refused_before_it_is_buffered():
    with pytest.raises(FramingBroken):
        list(RunnerFrameDecoder().feed(struct.pack(">cI", b"O", MAX_FRAME_BYTES + 1)))


def test_an_unknown_kind_is_refused():
    with pytest.raises(FramingBroken):
        list(RunnerFrameDecoder().feed(frame(b"?", b"")))


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b"[" * 60_000, b"\xff"])
def test_a_frame_that_is_no_json_object_is_refused(payload):
    with pytest.raises(FramingBroken):
        Frame(FrameKind.DONE, payload).fields()


def test_a_run_order_carries_any_text():
    encoded = encode_run(Program("é\ud800\x00", limits(7), {"A": "b=c", "D": ""}))
    kind, length, timeout, kept, flood, checked, places, size = struct.unpack_from(">cIdQQ?BI", encoded)
    rest = encoded[struct.calcsize(">cIdQQ?BI") :]
    assert (kind, length) == (b"G", len(encoded) - 5)
    assert (timeout, kept, flood, checked, places) == (7, 102_400, 16 * 1024**2, False, 0)
    assert rest[:size] == b"A=b=c\0D=\0"
    assert rest[size:] == "é?\0".encode()


def test_files_are_carried_with_their_paths():
    assert encode_files({"a.py": "é"}) == struct.pack(">cII4sI2s", b"P", 14, 4, b"a.py", 2, "é".encode())


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.COMPLETED),
        ({"exit_code": 1}, Outcome.FAILED),
        ({"ending": "timed_out", "exit_code": 137, "signal": 9}, Outcome.TIMED_OUT),
        ({"ending": "output_limit"}, Outcome.OUTPUT_LIMIT),
        ({"ending": "out_of_memory"}, Outcome.OUT_OF_MEMORY),
    ],
)
def test_the_supervisors_report_decides_the_outcome(change, outcome):
    assert ending_of({**DONE, **change}).outcome is outcome


@pytest.mark.parametrize(
    "change",
    [
        {"ending": "escaped"},
        {"ending": "rejected"},
        {"stdout_dropped_bytes": -1},
        {"exit_code": "0"},
        {"exit_code": 10**30},
        {"exit_code": -1},
        {"signal": 256},
        {"cpu_seconds": None},
        {"cpu_seconds": float("inf")},
        {"cpu_seconds": float("nan")},
        {"max_rss_bytes": 10**400},
        {"max_rss_bytes": True},
    ],
)
def test_a_report_that_makes_no_sense_is_refused(change):
    with pytest.raises(FramingBroken):
        ending_of({**DONE, **change})


def test_a_run_order_says_what_is_handed_over():
    places = {Place.OUT: FileLimits(10, 20, 30), Place.WORKSPACE: FileLimits(1, 2**40, 2**41)}
    encoded = encode_run(Program("pass", limits(7), hands_over=places))
    count, *fields = struct.unpack_from(">BcIQQcIQQ", encoded, struct.calcsize(">cIdQQ?"))
    assert (count, *fields) == (2, b"o", 10, 20, 30, b"f", 1, 2**40, 2**41)


def test_files_are_described_by_place_size_and_raw_name():
    found = found_file(Frame(FrameKind.FILE, b"f\x01" + struct.pack(">Q", 7) + b"a/\xff\n"))
    assert found == FoundFile(Place.WORKSPACE, b"a/\xff\n", 7, unchanged=True)
    missed = missed_file(Frame(FrameKind.LEFT_OUT, b"ol" + struct.pack(">Q", 2**40) + b"b"))
    assert missed == MissedFile(Place.OUT, b"b", 2**40, Why.TOO_LARGE)


@pytest.mark.parametrize("payload", [b"", b"o\0" + bytes(8), b"x\0" + bytes(8) + b"name"])
def test_a_file_without_a_known_place_and_a_name_breaks_the_protocol(payload):
    with pytest.raises(FramingBroken):
        found_file(Frame(FrameKind.FILE, payload))


def test_a_reason_that_is_not_known_breaks_the_protocol():
    with pytest.raises(FramingBroken):
        missed_file(Frame(FrameKind.LEFT_OUT, b"o?" + bytes(8) + b"name"))
