"""require_free_address.py ADDRESS:PORT: fails with the system's own reason when it cannot be bound.

Binding is the only test that sees every owner of a port, also those of other users and namespaces.
"""

import socket
import sys


def main(published: str) -> None:
    host, _, port = published.rpartition(":")
    host = host.strip("[]")
    if not host:  # the engine would take it for every address of this machine
        sys.exit(f"it has no address; for this machine only, write 127.0.0.1:{port}")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            sys.exit(str(error))
        except (ValueError, OverflowError):
            sys.exit(f"{port} is not a port; ports are numbers up to 65535")


if __name__ == "__main__":
    main(sys.argv[1])
