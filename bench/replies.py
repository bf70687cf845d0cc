"""What the replies say about where the time went."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.client import Reply
from bench.results import Phases


def phases(replies: Sequence[Reply]) -> Phases:
    return Phases(
        queue_ms=statistics.median(reply.queue_ms for reply in replies),
        start_ms=statistics.median(reply.start_ms for reply in replies),
        run_ms=statistics.median(reply.run_ms for reply in replies),
        rest_ms=statistics.median(reply.rest_ms for reply in replies),
    )
