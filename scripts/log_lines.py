"""log_lines.py COMMAND…: runs a command that prints a log, and tells its lines apart.

What is JSON goes to stdout, everything else to stderr, whichever stream it came on. Ends, and ends the command, as soon
as nobody reads stdout any more: a log that is followed may be silent for long.
"""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress

CHUNK_BYTES = 64 * 1024
INTERRUPTED = 130


def pass_on(source: int) -> bool:
    """Pass lines on until the source ends; return False if nobody reads them any more."""
    poll, rest = select.poll(), b""
    poll.register(source, select.POLLIN)
    poll.register(sys.stdout.fileno(), 0)  # errors are always told: for a pipe, that its other end is closed
    while True:
        if dict(poll.poll()).get(sys.stdout.fileno()):
            return False
        chunk = os.read(source, CHUNK_BYTES)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            lines.append(rest)
        for line in lines:
            stream = sys.stdout.buffer if is_json(line) else sys.stderr.buffer
            stream.write(line + b"\n")
            stream.flush()
        if not chunk:
            return True


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def main(command: list[str]) -> int:
    with subprocess.Popen(  # noqa: S603  # scripts/logs.sh names it
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        try:
            with suppress(BrokenPipeError):
                if pass_on(process.stdout.fileno()):
                    return process.wait()
            # Else Python would write what is left, and complain, as it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
