import json
from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
print(json.loads(read_text_file(path="/workspace/data.csv")))
