import asyncio
from servers.filesystem import read_text_file

async def read(path: str) -> int:
    result = await read_text_file(path=path)
    return len(result["content"])

async def main() -> None:
    sizes = await asyncio.gather(*(read(p) for p in ["/workspace/notes.txt", "/workspace/data.csv"]))
    print(sum(sizes))

asyncio.run(main())
