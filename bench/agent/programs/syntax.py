from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
for line in range(3)
    print(line)
