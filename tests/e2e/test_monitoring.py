"""The profile `monitoring`, as make brings it up: Prometheus reads the daemon's metrics, and holds the rules."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml

from bench.testbed.engine import engine_is_there
from deploy.monitoring import dashboard
from tests.support.api import Api, eventually
from tests.support.clone import Clone, cloned, free_address
from tests.support.installation import PROJECT
from tests.support.stack import direct, run

MONITORING = PROJECT / "deploy" / "monitoring"
IMAGE = "mcp-code-executor/mcp-prometheus:latest"
RULES = yaml.safe_load((MONITORING / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
# What Grafana fills in.
FILLED_IN = {"$__rate_interval": "1m", "$__range": "1h", "$server": ".*"}
ENDED = 'code_executor_executions_total{language="python",outcome="completed"} > 0'
pytestmark = pytest.mark.timeout(240)


def promtool(*arguments: str) -> str:
    """The one in the image, which reads the rules as Prometheus will."""
    inside = (
        "--network",
        "none",
        "--tmpfs",
        "/tmp",
        "--volume",
        f"{MONITORING}:/monitoring:ro",
        "--workdir",
        "/monitoring",
    )
    shell = ("--entrypoint", "/bin/sh", IMAGE, "-c", 'echo token >/tmp/token; exec promtool "$@"', "promtool")
    return run("docker", "run", "--rm", *inside, *shell, *arguments)


def test_the_configuration_and_the_rules_are_valid() -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "config", "prometheus/prometheus.yml")


def test_every_alert_fires_when_it_should_and_not_otherwise() -> None:
    assert "SUCCESS" in promtool("test", "rules", "rules.test.yml")


def test_a_case_that_is_wrong_is_noticed(tmp_path) -> None:
    case = (MONITORING / "rules.test.yml").read_text()
    broken = tmp_path / "rules.test.yml"
    tmp_path.chmod(0o755)
    broken.write_text(case.replace("[prometheus/rules.yml]", "[/etc/prometheus/rules.yml]").replace("0x40", "1x40"))
    mount = ("--volume", f"{broken}:/rules.test.yml:ro")
    with pytest.raises(AssertionError, match="CodeExecutorDown"):
        run("docker", "run", "--rm", *mount, "--entrypoint", "promtool", IMAGE, "test", "rules", "/rules.test.yml")


class Prometheus:
    def __init__(self, clone: Clone, address: str) -> None:
        self.clone = clone
        self.container = f"{clone.prefix}mcp-prometheus"
        self.url = f"http://{address}"

    def ask(self, path: str, **query: str) -> Any:
        with direct().open(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as reply:
            return json.loads(reply.read())["data"]

    def query(self, expression: str) -> list[Any]:
        for name, value in FILLED_IN.items():
            expression = expression.replace(name, value)
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    async def sees(self, expression: str) -> bool:
        try:
            return bool(self.query(expression))
        except OSError:
            return False


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test' starts one, or start yours first.")
    address = free_address()
    with cloned(tmp_path_factory.mktemp("clone"), "monitoring", MCP_PROMETHEUS_PUBLISH=address) as clone:
        assert "ready at" in clone.do("scripts/up.sh")
        yield Prometheus(clone, address)


@pytest.fixture(scope="module")
async def api(prometheus: Prometheus) -> AsyncIterator[Api]:
    async with Api.connect(f"http://{prometheus.clone.address}", prometheus.clone.key) as connected:
        await connected.python("print(6 * 7)")
        await eventually(lambda: prometheus.sees(ENDED), seconds=60)
        yield connected


async def test_prometheus_reads_what_programs_did(api: Api, prometheus: Prometheus) -> None:
    (target,) = prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["labels"]["instance"]) == ("up", "code-executor")
    assert prometheus.query("code_executor_ready")[0]["value"][1] == "1"
    assert prometheus.query("code_executor_memory_limit_bytes")[0]["value"][1] == str(2 * 1024**3)


async def test_the_rules_are_loaded_and_nothing_is_wrong(api: Api, prometheus: Prometheus) -> None:
    (group,) = prometheus.ask("rules")["groups"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in RULES]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}

    async def nothing_fires() -> bool:  # any more: Prometheus is there before the daemon is
        return not prometheus.query('ALERTS{alertstate="firing"}')

    await eventually(nothing_fires)


async def test_every_query_of_the_dashboard_is_answered(api: Api, prometheus: Prometheus) -> None:
    panels = [panel for panel in dashboard.dashboard()["panels"] if panel["type"] != "row"]
    answers = {panel["title"]: [prometheus.query(each["expr"]) for each in panel["targets"]] for panel in panels}
    assert len(answers) == len(panels)
    assert answers["Ready"][0][0]["value"][1] == "1"


async def test_prometheus_has_a_token_that_opens_the_metrics_and_nothing_else(api: Api, prometheus: Prometheus) -> None:
    token = (prometheus.clone.path / "secrets" / "metrics.token").read_text().strip()
    assert len(token) == 64
    async with api.as_caller(token) as reader:
        async with reader.session.get(f"{reader.url}/metrics") as response:
            assert response.status == 200
        assert (await reader.get("/whoami"))[0] == 401
        assert (await reader.post("/execute", {"code": "print(1)", "language": "python"}))[0] == 401
    shown = run("docker", "inspect", prometheus.container)
    (held,) = json.loads(shown)
    assert held["HostConfig"]["ReadonlyRootfs"]
    assert (held["Config"]["User"], held["HostConfig"]["CapDrop"]) == ("10005:10005", ["ALL"])
    assert prometheus.clone.key not in shown


async def test_prometheus_shares_a_network_with_the_daemon_alone(api: Api, prometheus: Prometheus) -> None:
    network = f"{prometheus.clone.prefix}mcp-backend-monitoring"
    (seen,) = json.loads(run("docker", "network", "inspect", network))
    assert {each["Name"] for each in seen["Containers"].values()} == {prometheus.container, prometheus.clone.daemon}
    assert seen["Options"] == {"com.docker.network.bridge.enable_ip_masquerade": "false"}


async def test_the_pages_of_prometheus_come_with_all_that_they_load(api: Api, prometheus: Prometheus) -> None:
    for page in ("/classic/alerts", "/classic/graph"):
        with direct().open(f"{prometheus.url}{page}", timeout=30) as reply:
            parts = re.findall(r'(?:src|href)="(/classic/static/[^"]+)"', reply.read().decode())
        assert len(parts) > 5
        for part in parts:
            with direct().open(f"{prometheus.url}{part}", timeout=30) as reply:
                assert reply.status == 200, part


async def test_a_page_of_another_site_reads_nothing_of_it(api: Api, prometheus: Prometheus) -> None:
    request = urllib.request.Request(f"{prometheus.url}/api/v1/labels", headers={"Origin": "http://evil.example"})
    with direct().open(request, timeout=30) as reply:
        assert reply.headers.get("Access-Control-Allow-Origin") is None


async def test_a_daemon_that_stops_is_told(api: Api, prometheus: Prometheus) -> None:
    down = next(rule["expr"] for rule in RULES if rule["alert"] == "CodeExecutorDown")
    assert not await prometheus.sees(down), "the control"
    run("docker", "stop", "--time", "20", prometheus.clone.daemon)
    await eventually(lambda: prometheus.sees(down), seconds=60)
