import asyncio
from servers.postgres import execute_sql

def count(table):
    return len(execute_sql(sql=f"SELECT * FROM {table}"))

async def main():
    sizes = await asyncio.gather(*(asyncio.to_thread(count, t) for t in ("customers", "orders")))
    rows = await execute_sql(sql="SELECT 1")
    print(sizes, len(rows))

asyncio.run(main())
