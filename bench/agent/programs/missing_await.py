import asyncio
from servers.postgres import execute_sql

async def main():
    await execute_sql(sql="DELETE FROM orders")
    rows = execute_sql(sql="SELECT * FROM customers")
    for row in rows:
        print(row["name"])

asyncio.run(main())
