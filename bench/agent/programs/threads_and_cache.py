from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from servers.filesystem import read_text_file

@lru_cache
def content(path):
    return read_text_file(path=path)["content"]

@dataclass
class Report:
    lines: list = field(default_factory=list)
    def add(self, path): self.lines.append((path, len(content(path))))

report = Report()
with ThreadPoolExecutor() as pool:
    list(pool.map(report.add, ["/workspace/notes.txt", "/workspace/data.csv"]))
print(len(report.lines))
