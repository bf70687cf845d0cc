"""Serves a launcher on a Unix socket, whose file says who may use it. One order on each connection.

Whoever uses it may be hostile: a daemon that was taken over. What it sends is read without a thread of its own, so that
connections without an order keep nobody from giving one, and there is a bound to everything that it can have us hold.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structlog

from orchestrator.domain.errors import EngineUnavailable, InvalidRequest, OrchestratorError
from orchestrator.engines.docker import orders
from orchestrator.engines.docker.launcher import Launcher
from orchestrator.engines.docker.orders import Check, Create, Fate, List, Look, Order, Remove

log = structlog.get_logger()

# Of one who connects and does not speak, or asks and does not listen.
PATIENCE_SECONDS = 5
MAX_SILENT = 64
# Far more than a daemon has: it removes no more than all sandboxes at once.
MAX_ORDERS = 512
QUICK_THREADS = 4
BACKLOG = 256
MODE = 0o660
PAUSE_SECONDS = 0.05
QUIET_SECONDS = 60  # between complaints, of which whoever uses it could cause any number
ENDING = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class Unread:
    """What came of an order so far."""

    since: float = field(default_factory=time.monotonic)
    line: bytes = b""


class LauncherServer:
    def __init__(self, launcher: Launcher, path: Path, *, max_calls: int) -> None:
        self._launcher = launcher
        self._threads = ThreadPoolExecutor(max_calls, thread_name_prefix="order")
        # What is answered at once must not wait behind removals: the engine is well though it takes long over one.
        self._quick_threads = ThreadPoolExecutor(QUICK_THREADS, thread_name_prefix="quick-order")
        self._listener = _listening_at(path)
        self._selector = selectors.DefaultSelector()
        self._closing, self._closed = socket.socketpair()
        self._silent: dict[socket.socket, Unread] = {}  # the one that has been there longest comes first
        self._in_hand: set[socket.socket] = set()
        self._quiet_until = 0.0

    def serve(self) -> None:
        """Serve until it is closed."""
        for waited_for in (self._listener, self._closed):
            self._selector.register(waited_for, selectors.EVENT_READ)
        try:
            while True:
                ready = [key.fileobj for key, _ in self._selector.select(PATIENCE_SECONDS if self._silent else None)]
                if self._closed in ready:
                    return
                for connection in ready:
                    if connection is self._listener:
                        self._accept()
                    elif isinstance(connection, socket.socket) and connection in self._silent:
                        self._read(connection)
                self._drop_silent()
        finally:
            self._listener.close()
            for connection in list(self._silent):
                self._drop(connection)
            self._selector.close()
            self._closed.close()

    def close(self) -> None:
        self._closing.close()  # wakes whoever serves
        for threads in (self._threads, self._quick_threads):
            threads.shutdown(wait=True, cancel_futures=True)
        for connection in list(self._in_hand):
            connection.close()
        self._launcher.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no descriptor is left: make room, or wait for some
            if time.monotonic() > self._quiet_until:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
                log.warning("launcher.cannot_accept", error=str(error))
            if not self._silent:
                time.sleep(PAUSE_SECONDS)
            self._drop_silent(len(self._silent))
            return
        connection.setblocking(False)
        self._silent[connection] = Unread()
        self._selector.register(connection, selectors.EVENT_READ)
        self._read(connection)  # most orders are there at once

    def _read(self, connection: socket.socket) -> None:
        unread = self._silent[connection]
        try:
            piece = connection.recv(orders.MAX_ORDER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        unread.line += piece
        if not piece or len(unread.line) > orders.MAX_ORDER_BYTES:
            self._drop(connection)
        elif unread.line.endswith(b"\n"):
            self._hand_over(connection, unread.line)

    def _hand_over(self, connection: socket.socket, line: bytes) -> None:
        self._selector.unregister(connection)
        del self._silent[connection]
        try:
            order = _parsed(line)
            if len(self._in_hand) >= MAX_ORDERS:
                raise EngineUnavailable(f"The launcher has {MAX_ORDERS} orders already.")
        except OrchestratorError as error:
            with connection, suppress(OSError):
                connection.send(orders.refusal(error))
            return
        self._in_hand.add(connection)
        threads = self._quick_threads if isinstance(order, Check | Fate) else self._threads
        with suppress(RuntimeError):  # it is being closed
            threads.submit(self._serve, connection, order)

    def _drop_silent(self, count: int = 0) -> None:
        """Hang up on those who were silent for too long, and on those who were there longest if there are too many."""
        now, surplus = time.monotonic(), max(count, len(self._silent) - MAX_SILENT)
        for place, (connection, unread) in enumerate(list(self._silent.items())):
            if place < surplus or now - unread.since > PATIENCE_SECONDS:
                self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._silent[connection]
        connection.close()

    def _serve(self, connection: socket.socket, order: Order) -> None:
        try:
            with connection:
                if _is_there(connection):
                    self._answer(connection, order)
        finally:
            self._in_hand.discard(connection)

    def _answer(self, connection: socket.socket, order: Order) -> None:
        leash = None
        try:
            if isinstance(order, Create):
                container_id, leash = self._launcher.create(order)
                line = orders.answer({"id": container_id})
            else:
                line = orders.answer(self._obey(order))
        except OrchestratorError as error:
            line = orders.refusal(error)
        except Exception as error:
            log.exception("launcher.crashed")
            line = orders.refusal(EngineUnavailable(f"The launcher failed ({type(error).__name__}); see its log."))
        try:
            connection.settimeout(PATIENCE_SECONDS)
            if leash is None:
                connection.sendall(line)
            else:
                socket.send_fds(connection, [line], [leash.fileno()])
        except OSError as error:  # it went away; what was made for it is removed by whoever reaps
            log.debug("launcher.connection_lost", error=str(error))
        finally:
            if leash is not None:
                leash.close()  # the daemon has its own; ours must not keep the sandbox alive

    def _obey(self, order: Remove | Fate | List | Look | Check) -> Any:
        match order:
            case Remove():
                return self._launcher.remove(order)
            case Fate():
                return self._launcher.fate(order)
            case List():
                return self._launcher.list_owned()
            case Look():
                return [asdict(finding) for finding in self._launcher.look()]
            case Check():
                return self._launcher.check()


def serve_until_told(server: LauncherServer, *, leash: int | None) -> None:
    """Serve until SIGTERM or SIGINT or, if there is a leash, until whoever holds its other end lets go."""
    # They are waited for, not handled: a handler would run in the middle of whatever the main thread does.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def wait_for_the_end_of(leash: int) -> None:
        os.read(leash, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=server.serve, daemon=True).start()
    if leash is not None:
        threading.Thread(target=wait_for_the_end_of, args=(leash,), daemon=True).start()
    log.info("launcher.listening")
    signal.sigwait(ENDING)
    server.close()


def _listening_at(path: Path) -> socket.socket:
    """Listen under a fresh name and then take the old one's place, so that nobody meets a socket that is not ready."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(fresh))
    fresh.chmod(MODE)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    fresh.replace(path)
    return listener


def _is_there(connection: socket.socket) -> bool:
    """Return whether somebody still waits for the answer, after an order had to wait itself."""
    waiting = select.poll()
    waiting.register(connection, 0)  # a connection that is closed is told unasked
    return not waiting.poll(0)


def _parsed(line: bytes) -> Order:
    try:
        return orders.parse(line)
    except ValueError as error:
        raise InvalidRequest(f"The launcher does not know this order: {error}") from error
