"""Remembers which sandboxes the kernel ended for want of memory, as the engine tells it: a supervisor that was killed
itself cannot."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import docker
import docker.errors
import requests
import structlog

log = structlog.get_logger()

REMEMBERED = 1024


class MemoryWatch:
    """Listens to the engine's events on a thread of its own, and begins again when it lost them."""

    def __init__(self, label: str) -> None:
        self._filters = {"event": "oom", "label": label}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._listening = False
        self._events: Any = None

    def begin(self, api: docker.APIClient) -> None:
        with self._lock:
            if self._listening:
                return
            # The stream is open before any sandbox is made: what happens later is in it.
            self._events = api.events(filters=self._filters, decode=True)
            self._listening = True
        threading.Thread(target=self._listen, name="memory-watch", daemon=True).start()

    def saw(self, container_id: str) -> bool:
        return container_id in self._seen

    def end(self) -> None:
        if self._events is not None:
            self._events.close()

    def _listen(self) -> None:
        try:
            for event in self._events:
                self._seen[event["Actor"]["ID"]] = None
                while len(self._seen) > REMEMBERED:
                    self._seen.popitem(last=False)
        except (docker.errors.APIError, requests.RequestException, OSError) as error:
            log.info("memory_watch.ended", error=type(error).__name__)
        finally:
            with self._lock:
                self._listening = False
