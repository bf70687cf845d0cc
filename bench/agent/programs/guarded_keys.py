from servers.memory import search_nodes
from servers.postgres import execute_sql

found = search_nodes(query="nobody")
first = found["entities"][0] if found["entities"] else {}
print(first.get("name", "none"), found.get("total", 0), "error" in found)
rows = execute_sql(sql="SELECT count(*) FROM customers")
value = rows[0].get("count") if isinstance(rows, list) and isinstance(rows[0], dict) else rows
print(value is None or value)
