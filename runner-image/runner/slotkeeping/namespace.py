"""Closes the network namespace for good."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
SIOCSIFNETMASK = 0x891C
IFF_UP = 0x1
CAPABILITY_VERSION_3 = 0x20080522

_REQUEST = struct.Struct("16sh22x")


def take_down(interface: str) -> None:
    # A missing route would not do: any program may bind a socket to the device (SO_BINDTODEVICE, IP_PKTINFO), and the
    # kernel then takes every address for a neighbour on the link. An interface that is down carries nothing.
    name = interface.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, _REQUEST.pack(name, 0))
        _, flags = _REQUEST.unpack(answer)
        fcntl.ioctl(control, SIOCSIFFLAGS, _REQUEST.pack(name, flags & ~IFF_UP))


def narrow_loopback() -> None:
    # The engine answers DNS on 127.0.0.11 in the namespaces of its networks, as root and from outside of the sandbox.
    # With a /32 mask 127.0.0.1 is all that is left of the loopback.
    mask = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton("255.255.255.255"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFNETMASK, struct.pack("16s16s8x", b"lo", mask))


def drop_every_capability() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")
