"""Servers as a company may have them, and what an agent does with them: enough to fill every page of the console."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.support.recorded_servers import RECORDED
from tests.support.upstream_server import Json, ScriptedProxy, reply

CUSTOMERS = [
    {"id": number, "name": name, "city": city, "revenue": revenue, "email": f"{name.split()[0].lower()}@example.org"}
    for number, (name, city, revenue) in enumerate(
        [
            ("Aalto Marine", "Turku", 182_400),
            ("Birch & Sons", "Leeds", 94_100),
            ("Cabo Verde Foods", "Praia", 61_750),
            ("Dune Analytics", "Rabat", 240_900),
            ("Eiger Optics", "Thun", 133_300),
            ("Fjord Logistics", "Bergen", 77_600),
        ],
        start=1001,
    )
]


def tool(name: str, description: str, takes: dict[str, Any], gives: Json | None = None, **hints: bool) -> Json:
    described: Json = {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": takes, "required": list(takes)[:1]},
        "annotations": hints,
    }
    return described if gives is None else {**described, "outputSchema": gives}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CUSTOMER = {
    "type": "object",
    "properties": {"id": NUMBER, "name": TEXT, "city": TEXT, "revenue": {"type": "number"}, "email": TEXT},
    "required": ["id", "name"],
}
TOOLS = {
    "crm": [
        tool(
            "find_customers",
            "Find customers whose name or city has a text. Returns at most `limit` of them, newest first.",
            {"text": TEXT, "limit": NUMBER},
            {
                "type": "object",
                "properties": {"customers": {"type": "array", "items": CUSTOMER}},
                "required": ["customers"],
            },
            readOnlyHint=True,
        ),
        tool("get_customer", "Read one customer by its id.", {"id": NUMBER}, CUSTOMER, readOnlyHint=True),
        tool("add_note", "Add a note to a customer's file.", {"id": NUMBER, "note": TEXT}, readOnlyHint=False),
    ],
    "mail": [
        tool(
            "send",
            "Send a message to one recipient.",
            {"to": TEXT, "subject": TEXT, "body": TEXT},
            destructiveHint=True,
        ),
        tool("search", "Search the mailbox by words of a message.", {"query": TEXT}, readOnlyHint=True),
    ],
    "postgres": [
        tool("execute_sql", "Run one SQL statement and return its rows.", {"sql": TEXT}),
        tool("list_tables", "List the tables of a schema.", {"schema": TEXT}, readOnlyHint=True),
    ],
}


REAL = ("filesystem", "memory", "playwright", "minio")  # as they list their tools; nobody calls them here


class Demo(ScriptedProxy):
    """Answers as the companies' servers would, after a while."""

    def __init__(self) -> None:
        super().__init__(*TOOLS)
        recorded: dict[str, list[Json]] = json.loads(RECORDED.read_text())
        self.tools = {**{name: recorded[name] for name in REAL}, **{name: list(tools) for name, tools in TOOLS.items()}}
        self.behaviours = {
            "find_customers": answering(lambda given: {"customers": CUSTOMERS[: given.get("limit", 6)]}, 0.03),
            "get_customer": answering(lambda given: CUSTOMERS[(given["id"] - 1001) % len(CUSTOMERS)], 0.06),
            "add_note": answering(lambda given: {"ok": True}, 0.02),
            "send": failing("The mailbox of the recipient is full.", 0.05),
            "search": answering(lambda given: {"messages": [{"subject": f"Re: {given['query']}"}] * 3}, 0.04),
            "execute_sql": self.execute_sql,
            "list_tables": answering(lambda given: {"tables": ["customers", "invoices", "payments"]}, 0.02),
        }
        self.on_list = self.list_tools
        self.go = asyncio.Event()  # statements with `pg_sleep` wait for it

    async def list_tools(self, request: web.Request, message: Json) -> web.StreamResponse:
        """List them with what they say of themselves, as servers do that no proxy stands before."""
        return web.json_response(reply(message, {"tools": self.tools[request.match_info["name"]]}))

    async def execute_sql(self, request: web.Request, message: Json) -> web.StreamResponse:
        if "pg_sleep" in message["params"]["arguments"]["sql"]:
            await self.go.wait()
        rows = [{"month": f"2026-{month:02}", "total": 1000 * month + 137} for month in range(1, 13)]
        return await answering(lambda given: {"rows": rows}, 0.05)(request, message)


def answering(answer: Callable[[dict[str, Any]], Any], seconds: float) -> Any:
    async def behave(_: web.Request, message: Json) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        given = answer(message["params"]["arguments"])
        content = [{"type": "text", "text": json.dumps(given)}]
        return web.json_response(reply(message, {"content": content, "structuredContent": given}))

    return behave


def failing(words: str, seconds: float) -> Any:
    async def behave(_: web.Request, message: Json) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(reply(message, {"content": [{"type": "text", "text": words}], "isError": True}))

    return behave


# What an agent might write; the first one is the picture in the README.
REPORT = """\
import asyncio, json
from pathlib import Path
from servers import crm, mail, postgres

GREEN, RED, DIM, RESET = "\\033[32m", "\\033[31m", "\\033[2m", "\\033[0m"

found = crm.find_customers(text="a", limit=6)["customers"]
rows = postgres.execute_sql(sql="SELECT month, total FROM invoices ORDER BY month")["rows"]
print(f"{DIM}{len(found)} customers, {len(rows)} months{RESET}")

async def details():
    return await asyncio.gather(*(asyncio.to_thread(crm.get_customer, id=each["id"]) for each in found))

for customer in sorted(asyncio.run(details()), key=lambda each: -each["revenue"]):
    colour = GREEN if customer["revenue"] > 100_000 else RED
    print(f"{customer['name']:<18} {colour}{customer['revenue']:>9,.0f}{RESET}  {customer['city']}")

try:
    mail.send(to="sales@example.org", subject="Revenue", body="attached")
except Exception as error:
    print(f"{RED}not sent:{RESET} {error}")

Path("/workspace/out/revenue.json").write_text(json.dumps(rows, indent=1))
"""
CHART = """\
from pathlib import Path
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from servers import postgres

rows = postgres.execute_sql(sql="SELECT month, total FROM invoices ORDER BY month")["rows"]
figure, axes = plt.subplots(figsize=(6, 3))
axes.bar([row["month"][-2:] for row in rows], [row["total"] for row in rows], color="#4a7fd6")
axes.set_title("Invoices by month")
figure.savefig("/workspace/out/invoices.png", dpi=110)
print("drawn")
"""
HELLO = """\
import { find_customers } from '/workspace/servers/crm/find_customers.js';

const { customers } = await find_customers({ text: 'a', limit: 3 });
console.log(customers.map((each) => each.name).join('\\n'));
"""
WRONG = """\
from servers import crm
print(crm.find_customer(text="Turku"))
"""
FAILS = """\
import sys
from servers import postgres
print(postgres.list_tables(schema="public"))
sys.exit("no table of that name: orders")
"""
HOSTILE = """\
print("<script>document.title = 'pwned'</script><img src=x onerror=alert(1)>")
print("\\033[31mred\\033[0m \\033]0;title\\007 \\033[2J \\u202eevil\\u202c \\0 end")
"""
EXAMPLES = (
    *(("python", REPORT), ("typescript", HELLO), ("python", CHART)),
    *(("python", WRONG), ("python", FAILS), ("python", HOSTILE)),
)
