"""Keeps one network namespace in which sandboxes come and go, one at a time.

Started with one capability, NET_ADMIN, it closes the namespace, then drops the capability and waits on its leash.
Without a gateway the interface is taken down: a missing route alone would not do, since any program may bind a socket
to the device (SO_BINDTODEVICE, IP_PKTINFO) and the kernel then takes every address for a neighbour on the link.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
INTERFACE = "eth0"
CAPABILITY_VERSION_3 = 0x20080522


def take_interface_down() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = INTERFACE.encode()
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sh22x", name, 0))
        _, flags = struct.unpack("16sh22x", answer)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", name, flags & ~IFF_UP))


def drop_every_capability() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def announce_ready() -> None:
    payload = json.dumps({"protocol": 1}).encode()
    os.write(1, struct.pack(">cI", b"R", len(payload)) + payload)


def wait_for_the_leash_to_end() -> None:
    while os.read(0, 4096):
        pass


def main() -> None:
    take_interface_down()
    drop_every_capability()
    announce_ready()
    wait_for_the_leash_to_end()


if __name__ == "__main__":
    main()
