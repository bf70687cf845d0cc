"""What the daemon may ask of the launcher, and how both sides write it: one line of JSON each way, on a connection of
its own. The answer to a create order carries the sandbox's leash, an open connection, beside its line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from orchestrator.domain.errors import OrchestratorError, fault_of
from orchestrator.domain.execution import Language

MAX_ORDER_BYTES = 4096
MAX_ANSWER_BYTES = 16 * 1024 * 1024
# A day in the pool, which is the most that settings.py allows, and then the time of a program.
MAX_LIFETIME_SECONDS = 25 * 3600
# Engines round what is less down to no quota at all.
LEAST_CPUS = 0.01

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_ContainerId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Order(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Create(_Order):
    """Make a sandbox, verified before it starts. Its bounds must lie within those that the launcher knows."""

    verb: Literal["create"] = "create"
    language: Language = Field(strict=False)  # a word in JSON
    epoch: _Name
    execution_id: _Name
    lifetime_seconds: float = Field(gt=0, le=MAX_LIFETIME_SECONDS, allow_inf_nan=False)
    memory_bytes: int = Field(gt=0)
    cpus: float = Field(ge=LEAST_CPUS, allow_inf_nan=False)
    max_processes: int = Field(gt=0)
    workspace_bytes: int = Field(gt=0)
    scratch_bytes: int = Field(gt=0)


class Remove(_Order):
    """Remove a sandbox of this installation once it has had time to leave by itself."""

    verb: Literal["remove"] = "remove"
    container_id: _ContainerId
    patience_seconds: float = Field(ge=0, le=30, allow_inf_nan=False)


class Fate(_Order):
    """Tell how a sandbox ended, as far as the engine has said; nothing is asked of it, so nothing is waited for."""

    verb: Literal["fate"] = "fate"
    container_id: _ContainerId


class List(_Order):
    """List what exists under this installation's name."""

    verb: Literal["list"] = "list"


class Look(_Order):
    """Look at everything that a sandbox needs of the engine and the host."""

    verb: Literal["look"] = "look"


class Check(_Order):
    """Say whether a sandbox could be made now."""

    verb: Literal["check"] = "check"


Order = Create | Remove | Fate | List | Look | Check
_ORDERS: TypeAdapter[Order] = TypeAdapter(Annotated[Order, Field(discriminator="verb")])


def parse(line: bytes) -> Order:
    """Read an order; raise ValueError for everything that is not exactly one."""
    return _ORDERS.validate_json(line)


def encode(order: Order) -> bytes:
    return order.model_dump_json().encode() + b"\n"


def answer(told: Any) -> bytes:
    return json.dumps({"told": told}).encode() + b"\n"


def refusal(error: OrchestratorError) -> bytes:
    return json.dumps({"refused": error.code, "message": error.message}).encode() + b"\n"


def read_answer(line: bytes) -> Any:
    """Return what was told, or raise what was refused, as it was raised over there."""
    document: Mapping[str, Any] = json.loads(line)
    if "refused" in document:
        raise fault_of(document["refused"], document["message"])
    return document["told"]
