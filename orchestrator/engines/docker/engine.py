"""The Docker engine. The SDK blocks, so every call of it runs on a thread pool as large as its connection pool."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from operator import methodcaller
from typing import Any, ParamSpec, TypeVar

import docker
import docker.errors
import requests
import structlog
import tenacity

from orchestrator.domain.errors import (
    EngineUnavailable,
    LockdownMismatch,
    NetworkUnsafe,
    OrchestratorError,
    RunnerImageMissing,
    SandboxFault,
)
from orchestrator.domain.sandbox import Finding, OwnedContainer, SandboxSpec, Verdict
from orchestrator.engines.docker import lockdown
from orchestrator.engines.docker.attach import AttachedLeash
from orchestrator.engines.docker.lockdown import Confinement, Identity
from orchestrator.engines.docker.sandbox import DockerSandbox
from orchestrator.engines.docker.slots import Slot, Slots
from orchestrator.engines.runner.leash import Leash
from orchestrator.engines.runner.relay import Accept
from orchestrator.engines.runner.session import KeeperSession, RunnerSession, SupervisorSession

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=RunnerSession)

CALL_TIMEOUT_SECONDS = 30
READY_TIMEOUT_SECONDS = 20
REMOVAL_TIMEOUT_SECONDS = 10
LEAVE_TIMEOUT_SECONDS = 2
KINDS = frozenset(kind.value for kind in lockdown.Kind)
LEAST_API_VERSION = (1, 41)
# Without a host address on the bridge, a sandbox cannot reach the host through it.
NETWORK_OPTIONS = {"com.docker.network.bridge.inhibit_ipv4": "true"}

_when_unreachable = tenacity.retry(
    retry=tenacity.retry_if_exception_type(EngineUnavailable),
    stop=tenacity.stop_after_attempt(3),
    wait=tenacity.wait_exponential(multiplier=0.2, max=2),
    reraise=True,
)


def _in_our_words(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Tell what the engine refuses for a reason that nobody expected as the engine's fault, not the daemon's."""

    @wraps(method)
    async def told(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return await method(*arguments, **options)
        except docker.errors.APIError as error:
            raise _refused(error) from error

    return told


def _refused(error: docker.errors.APIError) -> EngineUnavailable:
    reason = error.explanation or str(error)
    return EngineUnavailable(f"The container engine refused: {reason}.", retry_after_seconds=5)


class DockerEngine:
    """Containers of one Docker daemon, each in a network slot of its own."""

    def __init__(self, docker_host: str, confinement: Confinement, identity: Identity, *, max_calls: int) -> None:
        self._docker_host = docker_host
        self._confinement = confinement
        self._identity = identity
        self._max_calls = max_calls
        self._threads = ThreadPoolExecutor(max_calls, thread_name_prefix="docker")
        self._client: docker.APIClient | None = None
        self._making_network = asyncio.Lock()  # the engine makes as many networks of one name as it is asked for
        self._slots = Slots(self._create_slot)
        self._connecting = threading.Lock()  # one connection is made, however many threads ask first

    @_in_our_words
    async def prepare(self) -> None:
        await self._call(lambda api: api.ping())
        await self._require_image()
        await self._ensure_network()

    @_in_our_words
    async def create_sandbox(self, spec: SandboxSpec, accept: Accept) -> DockerSandbox:
        """Start a sandbox in a free slot; what it connects to the gateway's port goes to `accept`."""
        slot = await self._slots.borrow()
        try:
            deadline = time.time() + spec.lifetime_seconds
            config = lockdown.sandbox_config(spec, slot.id, self._confinement, self._identity, deadline)
            container_id, supervisor = await self._start(config, SupervisorSession)
        except BaseException:
            await self._slots.retire(slot)  # what failed to start may not be gone yet
            raise
        slot.serve(container_id, accept)
        supervisor.prepare(spec.files)
        return DockerSandbox(container_id, supervisor, slot, self._slots, self._see_off)

    @_in_our_words
    async def _create_slot(self) -> Slot:
        await self._ensure_network()
        container_id, keeper = await self._start(lockdown.slot_config(self._confinement, self._identity), KeeperSession)
        return Slot(container_id, keeper, self._see_off)

    @_in_our_words
    async def list_owned(self) -> Sequence[OwnedContainer]:
        label = f"{lockdown.LABEL_OWNER}={self._identity.owner}"
        found = await self._call(lambda api: api.containers(all=True, filters={"label": label}))
        owned = []
        for item in found:
            labels = item["Labels"]
            if (kind := labels.get(lockdown.LABEL)) not in KINDS:
                continue
            deadline = float(labels.get(lockdown.LABEL_DEADLINE, 0))
            # Whoever has the socket can change a container after it was verified: another network is a way out.
            networks = set((item.get("NetworkSettings") or {}).get("Networks") or {})
            allowed = {self._confinement.network} if kind == lockdown.Kind.SLOT else set()
            container = OwnedContainer(
                id=item["Id"],
                of_this_epoch=labels.get(lockdown.LABEL_EPOCH) == self._identity.epoch,
                kind=kind,
                in_use=item["Id"] in self._slots.ids,
                # Of two stamps of the same moment: a clock that jumps later changes nothing.
                lifetime_seconds=max(0.0, deadline - item["Created"]) if deadline else None,
                tampered=bool(networks - allowed),
            )
            owned.append(container)
        return owned

    @_in_our_words
    async def remove(self, container_id: str) -> None:
        """Return when the engine no longer knows the container."""
        await self._force_removal(container_id)

    @_in_our_words
    async def _see_off(self, container_id: str) -> None:
        """Wait for a container that was let go to leave by itself; kill it if it does not."""
        if not await self._until_removed(container_id, LEAVE_TIMEOUT_SECONDS):
            await self._force_removal(container_id)

    @_when_unreachable
    async def _force_removal(self, container_id: str) -> None:
        try:
            await self._call(lambda api: api.remove_container(container_id, force=True, v=True))
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409:  # 409: its own AutoRemove is already at it
                raise
            if not await self._until_removed(container_id, REMOVAL_TIMEOUT_SECONDS):
                raise

    async def describe(self) -> Sequence[Finding]:
        """Look at everything that a sandbox needs of this engine."""
        findings = [self._socket_finding()]
        if findings[0].verdict is Verdict.FAILED:
            return findings
        try:
            findings += await self._version_findings()
        except (OrchestratorError, docker.errors.APIError) as error:
            told = error if isinstance(error, OrchestratorError) else _refused(error)
            return [*findings, Finding("engine", Verdict.FAILED, told.message, told.hint)]
        for check, look in (("runner image", self._image_state), ("network", self._network_state)):
            try:
                findings.append(Finding(check, Verdict.OK, await look()))
            except OrchestratorError as error:
                findings.append(Finding(check, Verdict.FAILED, error.message, error.hint))
        return findings

    def _socket_finding(self) -> Finding:
        check = "engine socket"
        if not self._docker_host.startswith("unix://"):
            return Finding(check, Verdict.OK, self._docker_host)
        path = self._docker_host.removeprefix("unix://")
        if not os.path.exists(path):
            fix = "Start the engine: 'make up' does it on Debian as root."
            return Finding(check, Verdict.FAILED, f"{path} does not exist", fix)
        if not os.access(path, os.R_OK | os.W_OK):
            fix = "Add your user to the group of the socket: 'sudo usermod -aG docker $USER', then log in again."
            return Finding(check, Verdict.FAILED, f"{path}: permission denied", fix)
        return Finding(check, Verdict.OK, path)

    async def _version_findings(self) -> list[Finding]:
        version = await self._call(lambda api: api.version())
        info = await self._call(lambda api: api.info())
        api_version, runtime, known = version["ApiVersion"], self._confinement.runtime, sorted(info["Runtimes"])
        if tuple(int(part) for part in api_version.split(".")) < LEAST_API_VERSION:
            fix = "Update the engine to 20.10 or newer."
            findings = [Finding("engine version", Verdict.FAILED, f"API {api_version}", fix)]
        else:
            detail = f"{version['Version']} (API {api_version}, {info['Driver']})"
            findings = [Finding("engine version", Verdict.OK, detail)]
        findings.append(Finding("cgroups", Verdict.OK, f"version {info.get('CgroupVersion', '1')}"))
        if runtime in known:
            return [*findings, Finding("runtime", Verdict.OK, runtime)]
        fix = f"Configure it in the engine or set CODE_EXECUTOR_RUNTIME to one of: {', '.join(known)}."
        return [*findings, Finding("runtime", Verdict.FAILED, f"the engine has no runtime {runtime}", fix)]

    @_in_our_words
    async def _image_state(self) -> str:
        image = await self._require_image()
        return f"{self._confinement.image} ({image['Id']})"

    @_in_our_words
    async def _network_state(self) -> str:
        """Look at the network without making it."""
        known = await self._networks()
        if not known:
            return f"{self._confinement.network} (not there yet: the daemon makes it)"
        self._require_safe(known[0])
        return f"{self._confinement.network} (internal, without a host address)"

    async def close(self) -> None:
        await self._slots.retire_all()
        if self._client is not None:
            self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _start(self, config: Mapping[str, Any], session_of: Callable[[Leash], S]) -> tuple[str, S]:
        """Create a container, compare it with what was asked, attach, and only then start it."""
        try:
            created = await self._call(lambda api: api.create_container_from_config(dict(config)))
        except docker.errors.ImageNotFound as error:
            raise self._image_missing() from error
        container_id = str(created["Id"])
        leash: AttachedLeash | None = None
        try:
            inspected = await self._call(lambda api: api.inspect_container(container_id))
            if differences := lockdown.differences(config, inspected):
                log.error("lockdown.mismatch", container_id=container_id, differences=differences)
                raise LockdownMismatch(f"The engine did not make the sandbox as it was asked to: {differences[0]}.")
            leash = await AttachedLeash.adopt(await self._call(lambda api: _attach(api, container_id)))
            session = session_of(leash)
            await self._call(lambda api: api.start(container_id))
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                await session.until_ready()
        except BaseException as error:
            if leash is not None:
                leash.let_go()
            await asyncio.shield(self.remove(container_id))
            if isinstance(error, TimeoutError):
                raise SandboxFault(f"the runner was not ready after {READY_TIMEOUT_SECONDS} s") from error
            if isinstance(error, docker.errors.APIError):
                raise SandboxFault(f"the engine did not start it: {error.explanation}") from error
            raise
        return container_id, session

    async def _until_removed(self, container_id: str, seconds: float) -> bool:
        """Wait for the removal; return False when it is still there, or the engine does not say."""
        try:
            await self._call(lambda api: api.wait(container_id, timeout=seconds, condition="removed"))
        except docker.errors.NotFound:
            return True
        except (EngineUnavailable, docker.errors.APIError):
            return False
        return True

    async def _require_image(self) -> Mapping[str, Any]:
        try:
            image: Mapping[str, Any] = await self._call(lambda api: api.inspect_image(self._confinement.image))
        except docker.errors.ImageNotFound as error:
            raise self._image_missing() from error
        return image

    def _image_missing(self) -> RunnerImageMissing:
        return RunnerImageMissing(f"The engine has no image {self._confinement.image}.")

    async def _ensure_network(self) -> None:
        async with self._making_network:
            known = await self._networks()
            if not known:
                labels = {lockdown.LABEL: "network", lockdown.LABEL_OWNER: self._identity.owner}
                await self._call(
                    lambda api: api.create_network(
                        self._confinement.network,
                        driver="bridge",
                        internal=True,
                        options=NETWORK_OPTIONS,
                        labels=labels,
                        check_duplicate=True,
                    )
                )
                known = await self._networks()
            for network in known[1:]:
                if lockdown.LABEL not in (network["Labels"] or {}):
                    raise NetworkUnsafe(f"There are several networks named {self._confinement.network}.")
                with suppress(docker.errors.NotFound):
                    await self._call(methodcaller("remove_network", network["Id"]))
        self._require_safe(known[0])

    async def _networks(self) -> list[Mapping[str, Any]]:
        """List those with our name, which the engine does not keep unique, the oldest first."""
        found = await self._call(lambda api: api.networks(names=[self._confinement.network]))
        exact = [network for network in found if network["Name"] == self._confinement.network]
        return sorted(exact, key=lambda network: str(network["Created"]))

    def _require_safe(self, network: Mapping[str, Any]) -> None:
        if not network["Internal"]:
            raise NetworkUnsafe(f"The network {self._confinement.network} must be internal, but is not.")
        missing = NETWORK_OPTIONS.items() - (network["Options"] or {}).items()
        if missing:
            raise NetworkUnsafe(
                f"The network {self._confinement.network} exists without the option {dict(missing)}, "
                "so it reaches the host."
            )

    async def _call(self, use: Callable[[docker.APIClient], R]) -> R:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, lambda: use(self._connected()))
        except (requests.ConnectionError, requests.Timeout) as error:
            raise _unavailable(error) from error

    def _connected(self) -> docker.APIClient:
        with self._connecting:
            if self._client is not None:
                return self._client
            try:
                client = docker.APIClient(
                    self._docker_host,
                    version="auto",
                    timeout=CALL_TIMEOUT_SECONDS,
                    num_pools=1,
                    max_pool_size=self._max_calls,
                )
            except docker.errors.DockerException as error:
                raise _unavailable(error) from error
            # No proxy and no .netrc is meant for the engine, and looking for them takes a third of each call.
            client.trust_env = False
            self._client = client
            return client


def _attach(api: docker.APIClient, container_id: str) -> socket.socket:
    params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    hijacked = api.attach_socket(container_id, params)
    # The SDK ties the connection to its response object; a duplicate outlives both and belongs to us alone.
    attached = socket.socket(fileno=os.dup(hijacked.fileno()))
    hijacked._response.close()
    return attached


def _unavailable(error: Exception) -> EngineUnavailable:
    # The innermost cause is what an operator can act on; the SDK wraps it several times.
    causes = ("permission denied", "no such file or directory", "connection refused", "timed out")
    cause = next((known for known in causes if known in str(error).lower()), type(error).__name__)
    return EngineUnavailable(f"The container engine does not answer ({cause}).", retry_after_seconds=5)
