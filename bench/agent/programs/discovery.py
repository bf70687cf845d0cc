from servers.discovery import list_servers, list_tools, search_tools

print(list_servers())
print([tool["name"] for tool in list_tools("memory")][:2], len(search_tools("graph")) > 0)
