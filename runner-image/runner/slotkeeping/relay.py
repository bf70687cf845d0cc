"""Carries the sandbox's connections to the daemon over one pair of pipes, without looking at what it carries."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable

from slotkeeping import wire

MAX_CONNECTIONS = 128
# Above this much unsent data the sandbox's connections are left alone until the daemon catches up.
PAUSE_ABOVE_BYTES = 512 * 1024
READ_BYTES = 256 * 1024


class LeashEnded(Exception):
    """The daemon let go of the leash."""


class Connection:
    """One accepted socket: what may still be sent to the daemon, and what the program has yet to take."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.socket = sock
        self.may_send = wire.WINDOW_BYTES
        self.unwritten = bytearray()
        self.unacknowledged = 0
        self.finishing = False


class Relay:
    """The loop that moves bytes between the leash and the sandbox's connections."""

    def __init__(self, listener: socket.socket, leash_in: int, leash_out: int) -> None:
        for fd in (leash_in, leash_out):
            os.set_blocking(fd, False)
        listener.setblocking(False)
        self._listener = listener
        self._leash_in = leash_in
        self._leash_out = leash_out
        self._incoming = wire.Decoder()
        self._outgoing = bytearray()
        self._connections: dict[int, Connection] = {}
        self._last_number = 0
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        self._send(wire.encode_ready())
        self._selector.register(self._leash_in, selectors.EVENT_READ, self._read_leash)
        while True:
            self._watch()
            for key, events in self._selector.select():
                key.data(events)

    def _watch(self) -> None:
        """Derive what to wait for from the state, anew in each round."""
        paused = len(self._outgoing) > PAUSE_ABOVE_BYTES
        self._want(self._leash_out, selectors.EVENT_WRITE if self._outgoing else 0, self._write_leash)
        room = len(self._connections) < MAX_CONNECTIONS and not paused
        self._want(self._listener.fileno(), selectors.EVENT_READ if room else 0, self._accept)
        for connection in self._connections.values():
            reads = not (paused or connection.finishing) and connection.may_send > 0
            events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if connection.unwritten else 0)
            self._want(connection.socket.fileno(), events, self._serve(connection))

    def _want(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        try:
            known = self._selector.get_key(fd)
        except KeyError:
            if events:
                self._selector.register(fd, events, act)
            return
        if not events:
            self._selector.unregister(fd)
        elif known.events != events:
            self._selector.modify(fd, events, act)

    def _serve(self, connection: Connection) -> Callable[[int], None]:
        def act(events: int) -> None:
            # What came over the leash in the same round may have closed it.
            if events & selectors.EVENT_WRITE and connection.number in self._connections:
                self._write_connection(connection)
            if events & selectors.EVENT_READ and connection.number in self._connections:
                self._read_connection(connection)

        return act

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        self._last_number += 1
        self._connections[self._last_number] = Connection(self._last_number, sock)
        self._send(wire.encode(wire.OPENED, self._last_number))

    def _read_connection(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(min(wire.MAX_DATA_BYTES, connection.may_send))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            connection.may_send -= len(data)
            self._send(wire.encode(wire.BYTES, connection.number, data))
        else:
            self._send(wire.encode(wire.FINISHED, connection.number))
            self._close(connection)

    def _write_connection(self, connection: Connection) -> None:
        try:
            written = connection.socket.send(connection.unwritten)
        except BlockingIOError:
            return
        except OSError:
            self._send(wire.encode(wire.FINISHED, connection.number))
            self._close(connection)
            return
        del connection.unwritten[:written]
        self._acknowledge(connection, written)
        if connection.finishing and not connection.unwritten:
            self._close(connection)

    def _acknowledge(self, connection: Connection, size: int) -> None:
        """Acknowledge half a window at a time: the daemon never stops, and a small answer needs no frame of its own."""
        connection.unacknowledged += size
        if connection.unacknowledged >= wire.WINDOW_BYTES // 2:
            self._send(wire.encode_window(connection.number, connection.unacknowledged))
            connection.unacknowledged = 0

    def _read_leash(self, _events: int) -> None:
        data = os.read(self._leash_in, READ_BYTES)
        if not data:
            raise LeashEnded
        for kind, number, payload in self._incoming.feed(data):
            connection = self._connections.get(number)
            if connection is not None:  # else it was closed while the frame was on its way
                self._take(connection, kind, payload)

    def _take(self, connection: Connection, kind: bytes, payload: bytes) -> None:
        if kind == wire.BYTES:
            connection.unwritten += payload
            self._write_connection(connection)
        elif kind == wire.WINDOW:
            connection.may_send += wire.decode_window(payload)
        elif kind == wire.FINISHED:
            connection.finishing = True
            if not connection.unwritten:
                self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._want(connection.socket.fileno(), 0, self._accept)
        connection.socket.close()
        del self._connections[connection.number]

    def _send(self, frame: bytes) -> None:
        self._outgoing += frame
        self._write_leash(0)

    def _write_leash(self, _events: int) -> None:
        try:
            written = os.write(self._leash_out, self._outgoing)
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise LeashEnded from None
        del self._outgoing[:written]
