"""Skills as agents may have kept them: one that is in use, and a newer version of it that waits for approval."""

from __future__ import annotations

from typing import Any

from tests.support.api import Api, eventually

CUSTOMERS_IN = """\
from servers.crm import find_customers


def run(input: dict) -> dict:
    \"\"\"Look for the customers of a city.\"\"\"
    found = find_customers(text=input["city"], limit=6)["customers"]
    return {"city": input["city"], "customers": [each["name"] for each in found]}
"""
RICHEST_FIRST = """\
from servers.crm import add_note, find_customers


def run(input: dict) -> dict:
    \"\"\"Look for the customers of a city, and note who was looked for.\"\"\"
    found = find_customers(text=input["city"], limit=6)["customers"]
    found.sort(key=lambda each: -each["revenue"])
    add_note(id=found[0]["id"], note="Looked for.")
    return {"city": input["city"], "customers": [each["name"] for each in found]}
"""
NOTES = """\
from servers.crm import add_note


def run(input: dict) -> dict:
    return {"noted": add_note(id=input["id"], note=input["note"])["ok"]}
"""
HIDDEN = """\
# <script>document.title = 'pwned'</script><img src=x onerror=alert(1)>
def run(input: dict) -> dict:
    return {"text": "</code></pre><script>document.title = 'pwned'</script>"}
"""
CITY = [{"input": {"city": "Turku"}}, {"input": {"city": "Leeds"}}]


async def save(api: Api, name: str, code: str, examples: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    body = {"name": name, "description": "Lists the customers of a city.", "language": "python", "code": code}
    status, saved = await api.post("/skills", {**body, "examples": examples, **more})
    assert status == 201, saved
    return dict(saved)


async def approve(api: Api, saved: dict[str, Any]) -> None:
    status, approved = await api.post(f"/skills/{saved['name']}/approve", {"version": saved["version"]})
    assert (status, approved["state"]) == (200, "approved"), approved


async def fill(admin: Api, developer: Api) -> None:
    """Leave a skill with a history."""
    await approve(admin, await save(developer, "customers_in", CUSTOMERS_IN, CITY))
    await eventually(lambda: _is_offered(admin, "customers_in"), seconds=10)
    for _ in range(2):
        _, result = await admin.post("/skills/customers_in/run", {"input": {"city": "Bergen"}})
        assert result["outcome"] == "completed", result
    waiting = await save(developer, "customers_in", RICHEST_FIRST, CITY, description="Lists a city's customers.")
    assert waiting["state"] == "proven", waiting


async def _is_offered(api: Api, name: str) -> bool:
    """Tell whether new sandboxes have a skill, which takes a moment after it was approved."""
    return name in (await api.get("/tools"))[1]["tools"].get("skills", "").split()
