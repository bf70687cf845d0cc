"""Goes before the Python probes that speak to the gateway by hand: it runs inside a sandbox, never in the test."""

import json
import os
import socket
import threading
import time  # noqa: F401  (for the probes)

GRANT = os.environ["CODE_EXECUTOR_GRANT"]


def connected():
    client = socket.socket(socket.AF_UNIX)
    client.connect("\0" + os.environ["CODE_EXECUTOR_GATEWAY"].removeprefix("@"))
    return client


def head(path, length, *more):
    fields = (f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {GRANT}", f"Content-Length: {length}", *more)
    return ("\r\n".join(fields) + "\r\n\r\n").encode()


def order(arguments, tool="sized", server="postgres"):
    return json.dumps({"server": server, "tool": tool, "arguments": arguments}).encode()


def answer(client, keep=False):
    """Read an answer to its end: its status and its size, or what it says."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(65536)
        if not piece:
            return None, received
        received += piece
    start, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in start.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    size, kept = len(body), [body]
    while size < length:
        piece = client.recv(1 << 20)
        if not piece:
            return None, size
        size += len(piece)
        kept = [*kept, piece] if keep else []
    status = int(start.split()[1])
    return status, json.loads(b"".join(kept)) if keep or (status != 200 and length < 65536 and kept) else size


def ask(path, body, keep=False, client=None):
    client = client or connected()
    client.sendall(head(path, len(body)) + body)
    return answer(client, keep)


def call(arguments, tool="sized", server="postgres", keep=False):
    return ask("/call", order(arguments, tool, server), keep)


def at_once(count, work):
    """Do something in many threads; what came of each."""
    results = [None] * count

    def do(number):
        results[number] = work(number)

    threads = [threading.Thread(target=do, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
