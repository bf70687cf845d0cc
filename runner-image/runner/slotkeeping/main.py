"""Closes the slot's network namespace, then relays connections."""

from __future__ import annotations

import contextlib
import signal
import socket

from slotkeeping.namespace import drop_every_capability, narrow_loopback, take_down
from slotkeeping.relay import LeashEnded, Relay

INTERFACE = "eth0"
LOOPBACK = "127.0.0.1"
STDIN, STDOUT = 0, 1
BACKLOG = 64


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    take_down(INTERFACE)
    narrow_loopback()
    drop_every_capability()
    with (
        socket.create_server((LOOPBACK, int(arguments[0])), backlog=BACKLOG) as listener,
        contextlib.suppress(LeashEnded),
    ):
        Relay(listener, STDIN, STDOUT).run()
