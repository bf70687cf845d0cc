from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
file = read_text_file(path="/workspace/notes.txt")
print(file["text"])
