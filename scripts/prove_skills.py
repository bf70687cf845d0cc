"""Proves the built-in skills on the daemon that runs, and writes what was recorded beside them.

Usage: python scripts/prove_skills.py [NAME ...]   (CODE_EXECUTOR_URL and CODE_EXECUTOR_KEY name the daemon and a key)
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from orchestrator.adapters.skill_library import read_content  # noqa: E402
from orchestrator.domain.skills import SkillContent  # noqa: E402

PROVING_SECONDS = 1800  # each example is run and replayed, and each may wait for a sandbox
SKILLS = PROJECT / "orchestrator" / "skills"
URL = os.environ.get("CODE_EXECUTOR_URL", "http://127.0.0.1:9091")


def main(names: list[str]) -> int:
    failed = 0
    for file in sorted(SKILLS.glob("*.json")):
        if not names or file.stem in names:
            failed += not prove(file)
    return 1 if failed else 0


def prove(file: Path) -> bool:
    content = read_content(file)
    saved = ask("POST", "/skills", content.as_document())
    if "version" not in saved:
        sys.stdout.write(f"{content.name}: {saved.get('detail')}\n")
        return False
    try:
        return keep_proof(file, content, saved)
    finally:
        if saved["state"] in ("draft", "proven"):
            ask("DELETE", f"/skills/{content.name}?version={saved['version']}")


def keep_proof(file: Path, content: SkillContent, saved: dict[str, Any]) -> bool:
    if saved["state"] != "proven":
        sys.stdout.write(f"{content.name}: {saved['state']}: {saved['remarks']}\n")
        return False
    if saved["version"] != content.version:
        sys.stdout.write(f"{content.name}: saved as {saved['version']}, but its files are {content.version}\n")
        return False
    recorded = ask("GET", f"/skills/{content.name}/recording?version={content.version}")
    proof = {
        "version": content.version,
        "provenAt": round(time.time()),
        "digests": saved["proof"]["digests"],
        "calls": saved["proof"]["calls"],
        "recording": {"tools": recorded["tools"], "runs": recorded["runs"]},
    }
    (SKILLS / "proofs").mkdir(exist_ok=True)
    (SKILLS / "proofs" / file.name).write_text(json.dumps(proof, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{content.name}: proven, {proof['calls']} calls\n")
    return True


def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
    key = os.environ.get("CODE_EXECUTOR_KEY") or (PROJECT / "secrets" / "code-executor-admin.key").read_text().strip()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}{path}", sent, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=PROVING_SECONDS) as response:  # noqa: S310 # nosec B310
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        answer = json.load(error)
    return answer


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
