import asyncio
from servers.memory import read_graph, search_nodes

graph, found = await asyncio.gather(read_graph(), search_nodes(query="ada"))
print(len(graph["entities"]), [e["name"] for e in found["entities"]])
