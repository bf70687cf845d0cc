from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
write_file(path="/workspace/second.txt")
