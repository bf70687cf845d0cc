import asyncio
from servers.memory import create_entities, read_graph

async def main():
    await create_entities(entities=[{"name": "x", "entityType": "t", "observations": []}])
    graph = await read_graph()
    for entity in graph["entities"]:
        print(entity["type"])

asyncio.run(main())
