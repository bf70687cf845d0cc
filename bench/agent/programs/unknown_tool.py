from servers.filesystem import read_txt_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
print(read_txt_file(path="/workspace/notes.txt"))
