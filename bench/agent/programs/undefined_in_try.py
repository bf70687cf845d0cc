from servers.filesystem import read_text_file, write_file
write_file(path="/workspace/begun.txt", content="begun")
try:
    write_file(path="/workspace/second.txt", content=text)
except Exception as e:
    print(f"Error: {e}")
