"""The daemon as a process of its own, to be killed, stopped and measured."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.testbed.process import listening_port, serve
from tests.support.api import Api, eventually, until
from tests.support.installation import Installation


@dataclass(frozen=True)
class DaemonProcess:
    process: subprocess.Popen[bytes]
    api: Api

    @classmethod
    @asynccontextmanager
    async def running(cls, installation: Installation) -> AsyncIterator[DaemonProcess]:
        """Ready when entered; ended when left, if the test has not done it."""
        log = installation.settings.data_dir.with_name("daemon.log")
        process = serve(installation, log)
        try:
            await until(lambda: listening_port(log) or process.poll() is not None, seconds=60)
            assert process.poll() is None, log.read_text()
            async with Api.connect(f"http://127.0.0.1:{listening_port(log)}", installation.keys["admin"]) as api:
                await eventually(lambda: is_ready(api), seconds=60)
                yield cls(process, api)
        finally:
            if process.poll() is None:
                process.terminate()
            await asyncio.to_thread(process.wait, 60)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    async def terminate(self) -> int:
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, 60)

    def resident_bytes(self) -> int:
        return self._memory("VmRSS")

    async def resting_bytes(self) -> int:
        """Forget the peak and return what it holds at rest: the most of several looks, as it frees some at times."""
        looks = []
        for _ in range(20):
            looks.append(self.resident_bytes())
            await asyncio.sleep(0.05)
        self.forget_peak()
        return max(looks)

    def peak_bytes(self) -> int:
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024


async def is_ready(api: Api) -> bool:
    status, _ = await api.get("/readyz")
    return status == 200
