import json
import time

from servers.n8n import n8n_executions, n8n_list_workflows, n8n_test_workflow

# It takes calls a moment after it was switched on, or after n8n was started.
deadline = time.monotonic() + 60
while True:
    try:
        found = n8n_list_workflows()["data"]["workflows"][0]["id"]
        ended = n8n_test_workflow(workflowId=found, triggerType="webhook", httpMethod="POST", data={"value": 21})
        if ended["success"] and ended["data"]["status"] == 200:
            break
    except (KeyError, IndexError):
        ended = None
    assert time.monotonic() < deadline, ended
    time.sleep(0.5)
runs = n8n_executions(action="list", workflowId=found)["data"]["executions"]
print(json.dumps([ended["data"]["data"], [each["status"] for each in runs]]))
