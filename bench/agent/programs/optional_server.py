try:
    from servers.slack import post_message
except ImportError:
    post_message = None
from servers.filesystem import read_text_file

text = read_text_file(path="/workspace/notes.txt", head=None)["content"]
if post_message:
    post_message(text=text)
print(text.splitlines()[0])
