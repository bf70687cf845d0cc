from servers.discovery import list_servers, list_tools, search_tools

print(list_servers())
print(list_tools("memory")[:2], [tool["name"] for tool in search_tools("graph")][:1])
