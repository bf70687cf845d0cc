from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pacing:
    """How patient we are with an upstream, in seconds."""

    connect_seconds: float = 60.0  # a package runner may fetch the server first
    list_seconds: float = 30.0
    between_listings_seconds: float = 1.0
    first_retry_seconds: float = 0.5
    longest_retry_seconds: float = 60.0
    settled_seconds: float = 30.0  # a connection that lasted this long starts the backoff anew


PATIENT = Pacing()
