from servers.filesystem import write_file

write_file(path="/workspace/begun.txt", content="begun")
print("done")
