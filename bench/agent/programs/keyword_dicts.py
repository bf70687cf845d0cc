from servers.memory import create_entities, create_relations, add_observations
from servers import memory

people = {"Grace": "admiral", "Emmy": "mathematician"}
entities = []
for name, role in people.items():
    entity = {"name": name, "entityType": "person", "observations": []}
    entity["observations"].append(f"is a {role}")
    entities.append(entity)
create_entities({"entities": entities})
create_relations(relations=[{"from": "Grace", "to": "Emmy", "relationType": "knows"}])
arguments = {"observations": [{"entityName": n, "contents": ["seen"]} for n in people]}
result = add_observations(**arguments)
print(len(result["results"]), memory.read_graph()["entities"][-1]["name"])
