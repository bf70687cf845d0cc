from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
print(json.dumps(read_text_file(path="/workspace/notes.txt")))
