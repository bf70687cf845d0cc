import json

from servers.n8n import n8n_create_workflow, n8n_health_check, n8n_update_partial_workflow

assert n8n_health_check()["success"]
webhook = {
    "id": "1",
    "name": "Called",
    "type": "n8n-nodes-base.webhook",
    "typeVersion": 2,
    "position": [0, 0],
    "parameters": {"path": "double", "httpMethod": "POST", "responseMode": "lastNode"},
}
doubled = {"id": "d", "name": "doubled", "type": "number", "value": "={{ $json.body.value * 2 }}"}
double = {
    "id": "2",
    "name": "Double",
    "type": "n8n-nodes-base.set",
    "typeVersion": 3.4,
    "position": [200, 0],
    "parameters": {"mode": "manual", "assignments": {"assignments": [doubled]}, "options": {}},
}
connections = {"Called": {"main": [[{"node": "Double", "type": "main", "index": 0}]]}}
made = n8n_create_workflow(name="Double", nodes=[webhook, double], connections=connections)["data"]["id"]
switched = n8n_update_partial_workflow(id=made, operations=[{"type": "activateWorkflow"}])
assert switched["success"], switched
print(json.dumps(made))
