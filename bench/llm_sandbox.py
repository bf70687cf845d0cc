"""llm-sandbox from PyPI, as its documentation shows it: a session per program, and its pool of reused containers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench.contestants import Contestant, Failed, Run, Unavailable
from bench.engine import LABEL, Engine
from bench.paths import RUNNER_IMAGE
from bench.programs import Language, Program

WITHOUT_POOL, WITH_POOL = "llm-sandbox", "llm-sandbox, pool"
NAMES = {Language.TYPESCRIPT: "javascript", Language.PYTHON: "python"}
POOL_SIZE = 2
# It calls the interpreter "python", in a pooled container inside a virtual environment, and works as root.
DOCKERFILE = f"""
FROM {RUNNER_IMAGE}
USER 0:0
RUN mkdir -p /sandbox/.sandbox-venv/bin && ln -s python3 /usr/bin/python \\
    && ln -s /usr/bin/python3 /sandbox/.sandbox-venv/bin/python
"""


def enter_llm_sandbox(engine: Engine, leave: ExitStack) -> Sequence[Contestant]:
    try:
        from llm_sandbox import SandboxSession
    except ImportError as error:
        raise Unavailable(f"not installed ({error})") from error
    image = leave.enter_context(engine.image(f"{LABEL}/llm-sandbox:{engine.run_id}", DOCKERFILE))
    options = _options(engine, image)
    pools = {language: _pool(name, options) for language, name in NAMES.items()}
    for pool in pools.values():
        leave.callback(pool.close)
    return [WithoutPool(SandboxSession, options), WithPool(pools)]


def _options(engine: Engine, image: str) -> dict[str, Any]:
    container = {
        "command": ["sleep", "3600"],
        "labels": {LABEL: engine.run_id},
        "stop_signal": "SIGKILL",  # its close() waits ten seconds for a process that does not end by itself
        "mem_limit": "1g",
    }
    return {"image": image, "runtime_configs": container, "skip_environment_setup": True, "workdir": "/sandbox"}


def _pool(language: str, options: dict[str, Any]) -> Any:
    from llm_sandbox.pool import PoolConfig, create_pool_manager

    config = PoolConfig(max_pool_size=POOL_SIZE, min_pool_size=POOL_SIZE, idle_timeout=None)
    return create_pool_manager(backend="docker", config=config, lang=language, **options)


class WithoutPool:
    name = WITHOUT_POOL
    single_use = True
    isolated = True

    def __init__(self, session_class: Any, options: dict[str, Any]) -> None:
        self._session_class = session_class
        self._options = options
        self._open: list[Any] = []

    def run(self, program: Program) -> Run:
        """Timed until the output is there; its container is removed afterwards, off the clock."""
        began = time.perf_counter()
        session = self._session_class(backend="docker", lang=NAMES[program.language], **self._options)
        session.open()
        self._open.append(session)
        return _outcome(session, program, began)

    def settle(self) -> None:
        while self._open:
            self._open.pop().close()


class WithPool:
    name = WITH_POOL
    single_use = False
    isolated = True

    def __init__(self, pools: dict[Language, Any]) -> None:
        self._pools = pools

    def run(self, program: Program) -> Run:
        from llm_sandbox.pool import PooledSandboxSession

        began = time.perf_counter()
        with PooledSandboxSession(pool_manager=self._pools[program.language], workdir="/sandbox") as session:
            return _outcome(session, program, began)

    def settle(self) -> None:
        pass


def _outcome(session: Any, program: Program, began: float) -> Run:
    result = session.run(program.javascript or program.code)
    seconds = time.perf_counter() - began
    if result.exit_code:
        raise Failed(f"llm-sandbox ended with {result.exit_code}: {result.stderr[-400:]}")
    return Run(seconds, result.stdout)
