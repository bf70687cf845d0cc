from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client_library.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
