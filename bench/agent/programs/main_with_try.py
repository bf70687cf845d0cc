import json, sys
from servers.filesystem import list_directory, read_text_file, write_file
from servers.errors import ToolError

def main():
    try:
        listing = list_directory(path="/workspace")
        names = [line.split(" ", 1)[1] for line in listing["content"].splitlines() if line.startswith("[FILE]")]
        sizes = {}
        for name in names:
            try:
                sizes[name] = len(read_text_file(path=f"/workspace/{name}")["content"])
            except ToolError as error:
                sizes[name] = str(error)
        write_file(path="/workspace/sizes.json", content=json.dumps(sizes, indent=2))
        print(len(sizes) > 0)
    except Exception as e:
        print(f"Error: {e}", file=sys.stderr)
        sys.exit(1)

if __name__ == "__main__":
    main()
