from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.client_library.gateway import Gateway, running_gateway
from tests.unit.client_library.workspace import Workspace


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
