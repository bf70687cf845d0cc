from servers import filesystem
filesystem.write_file(path="/workspace/begun.txt", content="begun")
print(filesystem.readFile(path="/workspace/notes.txt"))
