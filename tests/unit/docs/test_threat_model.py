"""What docs/threat-model.md says must be so."""

from __future__ import annotations

import re

from tests.unit.docs.pages import PROJECT, page, section

THREAT_MODEL = page("docs/threat-model.md")


def test_every_test_that_the_threat_model_names_exists():
    tests = "\n".join(file.read_text() for file in (PROJECT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", THREAT_MODEL)
    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_every_engine_option_that_the_threat_model_names_is_in_the_lockdown():
    lockdown = page("orchestrator/engines/docker/lockdown.py")
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", section(THREAT_MODEL, "Controls")))
    assert {"ReadonlyRootfs", "CapDrop", "StdinOnce"} <= named
    assert [name for name in sorted(named) if f'"{name}"' not in lockdown] == []
