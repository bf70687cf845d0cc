"""The only part that holds the engine's socket. It makes sandboxes of one kind, verified by `lockdown`, and removes its
own; there is no way to ask it for anything else.

The SDK blocks, and so does this: the server calls it on threads.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import docker
import docker.errors
import requests
import structlog
import tenacity

from orchestrator.domain.errors import (
    EngineUnavailable,
    InvalidRequest,
    LockdownMismatch,
    OrchestratorError,
    RunnerImageMissing,
    RuntimeMissing,
    SandboxFault,
)
from orchestrator.domain.sandbox import Finding, Verdict
from orchestrator.engines.docker import lockdown
from orchestrator.engines.docker.host import host_findings
from orchestrator.engines.docker.lockdown import Bounds, Confinement, Identity
from orchestrator.engines.docker.memory_watch import MemoryWatch
from orchestrator.engines.docker.orders import Create, Fate, Remove
from orchestrator.engines.docker.places import Places

log = structlog.get_logger()

CALL_TIMEOUT_SECONDS = 30
# An engine that takes longer to say that it is there is not there for a program either.
CHECK_TIMEOUT_SECONDS = 2
REMOVAL_TIMEOUT_SECONDS = 10
LEAST_API_VERSION = (1, 41)

_when_unreachable = tenacity.retry(
    retry=tenacity.retry_if_exception_type(EngineUnavailable),
    stop=tenacity.stop_after_attempt(3),
    wait=tenacity.wait_exponential(multiplier=0.2, max=2),
    reraise=True,
)


class Launcher:
    def __init__(
        self,
        docker_host: str,
        confinement: Confinement,
        owner: str,
        *,
        most: Bounds,
        max_running: int,
        max_sandboxes: int,
        max_calls: int,
    ) -> None:
        self._docker_host = docker_host
        self._confinement = confinement
        self._owner = owner
        self._most = most
        self._max_running = max_running
        self._max_calls = max_calls
        self._connecting = threading.Lock()  # one connection is made, however many threads ask first
        self._client: docker.APIClient | None = None
        self._connecting_to_check = threading.Lock()  # its own, so that no check waits for what takes longer
        self._checking_client: docker.APIClient | None = None
        self._users = lockdown.USERS
        self._places = Places(max_sandboxes)
        self._runtime_is_known = False
        self._memory_watch = MemoryWatch(f"{lockdown.LABEL_OWNER}={owner}")

    def check(self) -> None:
        """Raise what would keep a sandbox from being made now. It is asked often and answers soon."""
        with self._engine(self._connected_to_check) as api:
            api.ping()
            self._require_image(api)
            self._require_runtime(api)

    def create(self, order: Create) -> tuple[str, socket.socket]:
        """Create a container, compare it with what was asked, attach, and only then start it; return its leash."""
        self._require_within_bounds(order)
        with self._engine() as api:
            user = self._places.reserve(self._users)
            try:
                self._memory_watch.begin(api)
                config = self._config(order, user)
                container_id = str(api.create_container_from_config(config, name=_sandbox_name())["Id"])
            except BaseException as error:
                self._places.give_back(user)
                if isinstance(error, docker.errors.ImageNotFound):
                    raise self._image_missing() from error
                raise
            self._places.occupy(user, container_id)
            try:
                return container_id, self._verified_and_started(api, container_id, config)
            except BaseException as error:
                self._force_removal(container_id)
                self._places.leave(container_id)
                if isinstance(error, docker.errors.APIError):
                    raise SandboxFault(f"the engine did not start it: {error.explanation}") from error
                raise

    def remove(self, order: Remove) -> None:
        """Wait for a sandbox to leave by itself, kill it if it does not; return when the engine no longer knows it."""
        with self._engine() as api:
            self._require_own(api, order.container_id)
            if not self._until_removed(api, order.container_id, order.patience_seconds):
                self._force_removal(order.container_id)
        self._places.leave(order.container_id)

    def fate(self, order: Fate) -> Mapping[str, bool]:
        return {"out_of_memory": self._memory_watch.saw(order.container_id)}

    def list_owned(self) -> Sequence[Mapping[str, Any]]:
        with self._engine() as api:
            found = self._existing(api)
            self._resume_watch(api)  # the list is asked for every few seconds, so a watch that was lost is soon back
            return [_described(item) for item in found]

    def look(self) -> Sequence[Finding]:
        """Look at everything that a sandbox needs of this engine and its host."""
        reachable = self._socket_finding()
        if reachable.verdict is Verdict.FAILED:
            return [reachable]
        try:
            with self._engine() as api:
                version, info = api.version(), api.info()
        except OrchestratorError as error:
            return [reachable, Finding("engine", Verdict.FAILED, error.message, error.hint)]
        findings = [reachable, _version_finding(version, info), self._runtime_finding(info)]
        most_files = self._max_running * self._most.max_files
        return [*findings, self._image_finding(), *host_findings(info, most_files)]

    def close(self) -> None:
        self._memory_watch.end()
        for client in (self._client, self._checking_client):
            if client is not None:
                client.close()

    def _require_within_bounds(self, order: Create) -> None:
        for name, most in asdict(self._most).items():
            if getattr(order, name) > most:
                raise InvalidRequest(f"A sandbox may have {name} of at most {most}, not {getattr(order, name)}.")

    def _existing(self, api: docker.APIClient) -> Sequence[Mapping[str, Any]]:
        known = self._places.taken
        found = api.containers(all=True, filters={"label": f"{lockdown.LABEL_OWNER}={self._owner}"})
        sandboxes = [item for item in found if item["Labels"].get(lockdown.LABEL) == lockdown.SANDBOX]
        self._places.correct(known, [item["Id"] for item in sandboxes])
        return sandboxes

    def _resume_watch(self, api: docker.APIClient) -> None:
        with suppress(docker.errors.APIError, requests.RequestException):  # what exists is told without it, too
            self._memory_watch.begin(api)

    def _config(self, order: Create, user: int) -> dict[str, Any]:
        bounds = Bounds(**{name: getattr(order, name) for name in asdict(self._most)})
        deadline = time.time() + order.lifetime_seconds
        identity = Identity(self._owner, order.epoch, order.execution_id, deadline)
        return lockdown.sandbox_config(
            order.language, order.lifetime_seconds, user, bounds, self._confinement, identity
        )

    def _verified_and_started(
        self, api: docker.APIClient, container_id: str, config: Mapping[str, Any]
    ) -> socket.socket:
        differences = lockdown.differences(config, api.inspect_container(container_id))
        if differences:
            log.error("lockdown.mismatch", container_id=container_id, differences=differences)
            raise LockdownMismatch(f"The engine did not make the sandbox as it was asked to: {differences[0]}.")
        leash = _attach(api, container_id)
        try:
            api.start(container_id)
        except BaseException:
            leash.close()
            raise
        return leash

    def _require_own(self, api: docker.APIClient, container_id: str) -> None:
        """Refuse to touch what is not a sandbox of this installation; one that is gone does no harm."""
        if container_id in self._places:
            return
        try:
            labels = api.inspect_container(container_id)["Config"]["Labels"] or {}
        except docker.errors.NotFound:
            return
        if (labels.get(lockdown.LABEL), labels.get(lockdown.LABEL_OWNER)) != (lockdown.SANDBOX, self._owner):
            raise InvalidRequest(f"The container {container_id[:12]} is not a sandbox of this installation.")

    def _until_removed(self, api: docker.APIClient, container_id: str, seconds: float) -> bool:
        """Wait for the removal; return False when it is still there, or the engine does not say."""
        if not seconds:
            return False
        try:
            api.wait(container_id, timeout=seconds, condition="removed")
        except docker.errors.NotFound:
            return True
        except (requests.RequestException, docker.errors.APIError):
            return False
        return True

    @_when_unreachable
    def _force_removal(self, container_id: str) -> None:
        with self._engine() as api:
            try:
                api.remove_container(container_id, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                if error.status_code != 409:  # 409: its own AutoRemove is already at it
                    raise
                if not self._until_removed(api, container_id, REMOVAL_TIMEOUT_SECONDS):
                    raise

    def _require_image(self, api: docker.APIClient) -> Mapping[str, Any]:
        try:
            image: Mapping[str, Any] = api.inspect_image(self._confinement.image)
        except docker.errors.ImageNotFound as error:
            raise self._image_missing() from error
        return image

    def _require_runtime(self, api: docker.APIClient) -> None:
        """Ask until the engine has it, and no more: the answer takes longer than the rest of the check."""
        if not self._runtime_is_known and self._confinement.runtime not in (known := api.info()["Runtimes"]):
            raise RuntimeMissing(
                f"The engine has no runtime {self._confinement.runtime}, only {', '.join(sorted(known))}."
            )
        self._runtime_is_known = True

    def _image_missing(self) -> RunnerImageMissing:
        return RunnerImageMissing(f"The engine has no image {self._confinement.image}.")

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

    def _runtime_finding(self, info: Mapping[str, Any]) -> Finding:
        runtime, known = self._confinement.runtime, sorted(info["Runtimes"])
        if runtime in known:
            return Finding("runtime", Verdict.OK, runtime)
        fix = f"Configure it in the engine or set CODE_EXECUTOR_RUNTIME to one of: {', '.join(known)}."
        return Finding("runtime", Verdict.FAILED, f"the engine has no runtime {runtime}", fix)

    def _image_finding(self) -> Finding:
        try:
            with self._engine() as api:
                image = self._require_image(api)
        except OrchestratorError as error:
            return Finding("runner image", Verdict.FAILED, error.message, error.hint)
        return Finding("runner image", Verdict.OK, f"{self._confinement.image} ({image['Id']})")

    @contextmanager
    def _engine(self, connected: Callable[[], docker.APIClient] | None = None) -> Iterator[docker.APIClient]:
        """Tell what goes wrong with the engine as its fault, in our words."""
        try:
            yield (connected or self._connected)()
        except docker.errors.APIError as error:
            reason = error.explanation or str(error)
            raise EngineUnavailable(f"The container engine refused: {reason}.", retry_after_seconds=5) from error
        except requests.RequestException as error:
            raise _unavailable(error) from error

    def _connected(self) -> docker.APIClient:
        with self._connecting:
            if self._client is None:
                # The watch keeps one of the connections.
                client = _connect(self._docker_host, CALL_TIMEOUT_SECONDS, connections=self._max_calls + 1)
                self._users = _users_of(client.info())
                # A launcher that was started again counts the sandboxes of the one before, and watches them.
                self._existing(client)
                self._resume_watch(client)
                self._client = client
            return self._client

    def _connected_to_check(self) -> docker.APIClient:
        with self._connecting_to_check:
            if self._checking_client is None:
                self._checking_client = _connect(self._docker_host, CHECK_TIMEOUT_SECONDS, connections=1)
            return self._checking_client


def _sandbox_name() -> str:
    """Return a name for people who look at the engine: random, because a warm sandbox is made before anybody knows its
    execution, and because nothing that others chose belongs into it."""
    return f"mcp-sandbox-{secrets.token_hex(6)}"


def _connect(docker_host: str, timeout_seconds: float, *, connections: int) -> docker.APIClient:
    try:
        client = docker.APIClient(
            docker_host, version="auto", timeout=timeout_seconds, num_pools=1, max_pool_size=connections
        )
    except docker.errors.DockerException as error:
        raise _unavailable(error) from error
    # No proxy and no .netrc is meant for the engine, and looking for them takes a third of each call.
    client.trust_env = False
    return client


def _users_of(info: Mapping[str, Any]) -> range:
    options = " ".join(info.get("SecurityOptions") or ())
    in_a_namespace = "name=userns" in options or "name=rootless" in options
    return lockdown.USERS_OF_A_NAMESPACE if in_a_namespace else lockdown.USERS


def _described(item: Mapping[str, Any]) -> Mapping[str, Any]:
    labels = item["Labels"]
    deadline = float(labels.get(lockdown.LABEL_DEADLINE, 0))
    return {
        "id": item["Id"],
        "epoch": labels.get(lockdown.LABEL_EPOCH),
        # Of two stamps of the same moment: a clock that jumps later changes nothing.
        "lifetime_seconds": max(0.0, deadline - item["Created"]) if deadline else None,
        # Whoever has the socket can change a container after it was verified: a network is a way out.
        "tampered": bool((item.get("NetworkSettings") or {}).get("Networks")),
    }


def _version_finding(version: Mapping[str, Any], info: Mapping[str, Any]) -> Finding:
    api_version = version["ApiVersion"]
    if tuple(int(part) for part in api_version.split(".")) < LEAST_API_VERSION:
        fix = "Update the engine to 20.10 or newer."
        return Finding("engine version", Verdict.FAILED, f"API {api_version}", fix)
    return Finding("engine version", Verdict.OK, f"{version['Version']} (API {api_version}, {info['Driver']})")


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
