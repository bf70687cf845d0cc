"""Asks for /health again and again until stdin ends, then prints the seconds: python -m bench.prober PORT

A process of its own, so that it waits for nothing but the daemon.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time

EVERY_SECONDS = 0.01


def probe(port: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    taken: list[float] = []
    while not select.select([sys.stdin], [], [], EVERY_SECONDS)[0]:
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        taken.append(time.perf_counter() - began)
    return taken


if __name__ == "__main__":
    print(json.dumps(probe(int(sys.argv[1]))))
