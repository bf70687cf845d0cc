from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
print(read_text_file(pth="/workspace/notes.txt")["content"])
