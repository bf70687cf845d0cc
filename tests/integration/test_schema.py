"""An independent reader of /openapi.json that tries what the description allows, and what it does not."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = 15
# Without a homeserver, chat answers 501, which is documented but would count as a fault here; its own tests cover it.
WITHOUT_CHAT = "^/chat"


@pytest.mark.timeout(400)
async def test_no_request_that_the_description_allows_breaks_the_daemon_and_every_route_wants_its_key(api, tmp_path):
    told = await asyncio.to_thread(
        schemathesis, api, tmp_path, "not_a_server_error,ignored_auth,content_type_conformance"
    )
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]
    (tried,) = re.findall(r"(\d+) generated", told.stdout)
    assert int(tried) > 200, told.stdout[-3000:]


async def test_that_reader_does_find_a_route_that_ignores_its_key(api, tmp_path):
    """The control: the description says of a public route that it wants a key."""
    described = await lying(api, tmp_path)
    told = await asyncio.to_thread(schemathesis, api, tmp_path, "ignored_auth", "--include-path=/livez", described)
    assert told.returncode == 1
    assert "/livez" in told.stdout


async def lying(api, directory):
    async with api.session.get(f"{api.url}/openapi.json") as response:
        description = await response.text()
    assert '"security": []' in description
    file = directory / "openapi.json"
    file.write_text(description.replace('"security": []', '"security": [{"bearer": []}]'))
    return str(file)


def schemathesis(api, directory, checks, chosen=f"--exclude-path-regex={WITHOUT_CHAT}", described=None):
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        described or f"{api.url}/openapi.json",
        f"--url={api.url}",
        f"--header=Authorization: {api.session.headers['Authorization']}",
        f"--checks={checks}",
        f"--max-examples={EXAMPLES}",
        chosen,
        "--phases=examples,coverage,fuzzing",
        "--seed=1",
        "--no-color",
    ]
    # A stream of events never ends by itself; the first tells what the stream is like.
    (directory / "schemathesis.toml").write_text('[[operations]]\ninclude-path = "/events"\nmax-stream-events = 1\n')
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=380)
