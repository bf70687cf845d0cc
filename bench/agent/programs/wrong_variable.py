from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
paths = ["/workspace/notes.txt"]
print(read_text_file(path=paths)["content"])
