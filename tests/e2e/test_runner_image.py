"""What programs find in the runner image, as they see it from inside a sandbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.api import Api
from tests.support.installation import Installation
from tests.support.packages import CHECKERS, PROGRAMS, PROMISED, pinned_modules, pinned_wheels

LARGEST_IMAGE_BYTES = 580 * 1000 * 1000
IMPORTED_AS = {"beautifulsoup4": "bs4", "pillow": "PIL", "python-dateutil": "dateutil", "pyyaml": "yaml"}
MODULES = [IMPORTED_AS.get(name, name) for name in PROMISED["python"]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation.create(tmp_path_factory.mktemp("runner-image"))


@pytest.fixture(scope="module")
async def api(place: Installation) -> AsyncIterator[Api]:
    async with place.run() as api:
        yield api


async def told(api: Api, code: str, language: str = "python") -> Any:
    result = await api.execute(code, language, 120)
    assert (result["outcome"], result["stderr"]) == ("completed", ""), result
    return json.loads(result["output"])


# --- Python ---


async def test_every_promised_python_package_can_be_imported_and_no_other(api):
    code = f"""
import importlib, json
def there(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name != name
    return True
print(json.dumps([name for name in {[*MODULES, "requests"]} if there(name)]))
"""
    assert await told(api, code) == MODULES


async def test_the_versions_of_python_packages_are_those_of_the_lock(api):
    code = """
import importlib.metadata, json
found = importlib.metadata.distributions(path=["/usr/local/lib/python3.11/dist-packages"])
print(json.dumps({one.name.lower(): one.version for one in found}))
"""
    assert await told(api, code) == pinned_wheels(PROGRAMS)


async def test_tables_are_read_joined_and_written(api):
    code = """
import io, json, duckdb, pandas
orders = pandas.DataFrame({"id": [1, 2], "euros": [3.5, 4.0]})
orders.to_excel("orders.xlsx", index=False)
read = pandas.read_excel("orders.xlsx")
total = duckdb.sql("select sum(euros) from read").fetchone()[0]
duckdb.sql("copy orders to 'orders.parquet'")
rows = duckdb.sql("select count(*) from 'orders.parquet'").fetchone()[0]
print(json.dumps([total, rows, read.to_markdown(index=False).splitlines()[-1]]))
"""
    assert await told(api, code) == [7.5, 2, "|    2 |     4   |"]


async def test_documents_are_parsed(api):
    code = """
import json, bs4, dateutil.parser, lxml.etree, yaml
page = bs4.BeautifulSoup("<p>first<p>second", "lxml")
print(json.dumps([
    [p.text for p in page.find_all("p")],
    lxml.etree.fromstring("<a><b>text</b></a>").xpath("//b/text()"),
    dateutil.parser.parse("3 May 2026").isoformat(),
    yaml.load("a: [1, 2]", Loader=yaml.CSafeLoader),
]))
"""
    assert await told(api, code) == [["first", "second"], ["text"], "2026-05-03T00:00:00", {"a": [1, 2]}]


async def test_a_chart_is_drawn_without_a_warning_and_with_the_fonts_that_are_listed_in_the_image(api):
    code = """
import io, json, os
import matplotlib, matplotlib.pyplot as plt
from PIL import Image
figure, axes = plt.subplots(figsize=(2, 1), dpi=100)
axes.plot([1, 2, 3])
axes.set_title("Größe")
file = io.BytesIO()
figure.savefig(file)
cache = matplotlib.get_cachedir()
kept = [os.readlink(os.path.join(cache, name)) for name in os.listdir(cache)]
print(json.dumps([Image.open(file).size, matplotlib.get_backend(), [os.path.dirname(path) for path in kept]]))
"""
    assert await told(api, code) == [[200, 100], "agg", ["/opt/matplotlib"]]


async def test_numpy_computes_in_one_thread(api):
    code = """
import json, os, threading
before = len(os.listdir("/proc/self/task"))
import numpy
numpy.ones((400, 400)) @ numpy.ones((400, 400))
after = len(os.listdir("/proc/self/task"))
threading.Thread(target=lambda: print(json.dumps([before, after, len(os.listdir("/proc/self/task"))]))).start()
"""
    assert await told(api, code) == [1, 1, 2]


async def test_no_package_is_loaded_before_a_program_imports_it(api):
    code = f"""
import json, sys
before = sorted(set(sys.modules) & set({MODULES}))
import yaml
print(json.dumps([before, sorted(set(sys.modules) & set({MODULES}))]))
"""
    assert await told(api, code) == [[], ["yaml"]]


# --- TypeScript ---


async def test_every_promised_typescript_package_can_be_imported_and_no_other(api):
    code = f"""
const there: string[] = [];
for (const name of {json.dumps([*PROMISED["typescript"], "left-pad"])}) {{
    try {{
        await import(name);
        there.push(name);
    }} catch (error) {{
        if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    }}
}}
console.log(JSON.stringify(there));
"""
    assert await told(api, code, "typescript") == PROMISED["typescript"]


async def test_the_versions_of_typescript_packages_are_those_of_the_lock(api):
    code = """
import json, pathlib
top = pathlib.Path("/node_modules")
files = [*top.glob("[!@]*/package.json"), *top.glob("@*/*/package.json")]
print(json.dumps({str(file.parent.relative_to(top)): json.loads(file.read_text())["version"] for file in files}))
"""
    pins = {name: version for name, version in pinned_modules(PROGRAMS).items() if "node_modules" not in name}
    assert await told(api, code) == pins


async def test_typescript_packages_do_what_they_are_for(api):
    code = """
import { z } from 'zod';
import { addDays, format } from 'date-fns';
import { chunk } from 'lodash-es';
import Papa from 'papaparse';
import * as cheerio from 'cheerio';
console.log(JSON.stringify([
    z.object({ a: z.number() }).safeParse({ a: 'b' }).success,
    format(addDays(new Date(2026, 0, 31), 1), 'yyyy-MM-dd'),
    chunk([1, 2, 3], 2),
    Papa.parse('a,b\\n1,2', { header: true }).data,
    cheerio.load('<p>first<p>second')('p').last().text(),
]));
"""
    assert await told(api, code, "typescript") == [False, "2026-02-01", [[1, 2], [3]], [{"a": "1", "b": "2"}], "second"]


# --- the checkers ---


async def test_ty_knows_the_packages_and_finds_a_mistake(api):
    code = f"""
import json, subprocess
with open("checked.py", "w") as file:
    file.write("import " + ", ".join({MODULES}) + "\\nimport lxml.etree\\nlen(1)\\nimport requests\\n")
def said_by_ty(*arguments):
    return subprocess.run(["/opt/check/ty", *arguments], capture_output=True, text=True).stdout
said = said_by_ty("check", "--output-format", "concise", "checked.py").splitlines()
print(json.dumps([said_by_ty("--version"), [line.split(":")[1] for line in said if line.startswith("checked.py")]]))
"""
    version, lines = await told(api, code)
    assert version.split()[1] == pinned_wheels(CHECKERS)["ty"]
    assert lines == ["3", "4"]


async def test_the_typescript_compiler_knows_the_packages_and_finds_a_mistake_without_node(api):
    code = f"""
import json, subprocess
with open("checked.ts", "w") as file:
    for number, name in enumerate({PROMISED["typescript"]} + ["node:fs", "left-pad"]):
        file.write(f"import * as package{{number}} from '{{name}}';\\n")
    file.write("const text: string = 1;\\n")
options = "--noEmit --strict --skipLibCheck --target esnext --module esnext --moduleResolution bundler --types node"
compiler = "/opt/check/typescript/tsc"
ended = subprocess.run([compiler, *options.split(), "checked.ts"], capture_output=True, text=True, env={{}})
version = subprocess.run([compiler, "--version"], capture_output=True, text=True, env={{}}).stdout
print(json.dumps([version, ended.stdout.splitlines()]))
"""
    version, lines = await told(api, code)
    assert version.split()[1] == pinned_modules(CHECKERS)["@typescript/typescript-linux-x64"]
    assert ["left-pad" in lines[0], "Type 'number'" in lines[1], len(lines)] == [True, True, 2]


# --- the image ---


async def test_the_image_has_no_installer_no_compiler_and_nothing_that_runs_at_every_start(api):
    code = """
import json, os, re, stat
unwanted = re.compile("(pip[0-9.]*|npm|npx|corepack|yarn|bash|perl|gcc|cc|ld|make|git|curl|wget|.*[.]pth)$")
found, privileged, tests, seen = [], [], [], 0
for directory, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if directory != "/" or name not in ("proc", "sys", "dev")]
    packages = directory.startswith(("/usr/local", "/node_modules"))
    tests += [name for name in folders if packages and name == "tests"]
    seen += len(names)
    for name in names:
        path = os.path.join(directory, name)
        if unwanted.match(name) or packages and name.endswith("customize.py"):
            found.append(path)
        if os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(os.lstat(path).st_mode):
            privileged.append(path)
print(json.dumps([sorted(found), privileged, tests, seen > 10_000]))
"""
    control = "open('/tmp/pip', 'w').close(); open('/tmp/any.pth', 'w').close()\n"
    assert await told(api, control + code) == [["/tmp/any.pth", "/tmp/pip"], [], [], True]


async def test_every_python_package_comes_with_its_bytecode(api):
    code = """
import importlib.util, json, os
top = "/usr/local/lib/python3.11/dist-packages"
paths = [os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names]
sources = [path for path in paths if path.endswith(".py")]
missing = [path for path in sources if not os.path.exists(importlib.util.cache_from_source(path))]
print(json.dumps([missing, len(sources) > 1000]))
"""
    assert await told(api, code) == [[], True]


def test_the_image_is_not_larger_than_it_may_be(place):
    command = ["docker", "image", "inspect", "--format", "{{.Size}}", place.settings.runner_image]
    size = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert size < LARGEST_IMAGE_BYTES
