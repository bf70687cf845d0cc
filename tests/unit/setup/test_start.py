from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from dotenv import dotenv_values

from tests.unit.setup.machine import Ready, Tree, answering

OLD_COMPOSE_ONLY = 'case "$1" in compose) exit 1 ;; *) exit 0 ;; esac'


def settings_of_daemon(tree: Tree) -> list[str]:
    return (tree.path / ".build" / "daemon.env").read_text().splitlines()


def test_the_daemon_gets_settings_from_the_file_and_then_from_the_environment(tree: Tree) -> None:
    tree.command("docker")
    (tree.path / ".env").write_text("CODE_EXECUTOR_LOG_LEVEL=debug\nUNRELATED=1\n")
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_MAX_RUNNING="3").returncode == 0
    assert settings_of_daemon(tree) == ["CODE_EXECUTOR_LOG_LEVEL='debug'", "CODE_EXECUTOR_MAX_RUNNING='3'"]
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_LOG_LEVEL="error").returncode == 0
    assert settings_of_daemon(tree) == ["CODE_EXECUTOR_LOG_LEVEL='error'"]


def test_a_key_and_paths_of_this_machine_do_not_reach_the_daemon(tree: Tree) -> None:
    tree.command("docker")
    private = {"KEY": "k", "URL": "u", "SECRETS_DIR": "/s", "DOCKER_HOST": "unix:///d", "PUBLISH": "127.0.0.1:9191"}
    variables = {f"CODE_EXECUTOR_{name}": value for name, value in private.items()}
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_TEST_NODE="/n", **variables).returncode == 0
    assert settings_of_daemon(tree) == []


def test_the_settings_of_the_daemon_are_for_their_owner_only(tree: Tree) -> None:
    tree.command("docker")
    tree.run("scripts/compose.sh", "ps")
    assert (tree.path / ".build" / "daemon.env").stat().st_mode & 0o777 == 0o600


def test_the_compose_plugin_is_used_when_it_is_there(tree: Tree) -> None:
    tree.command("docker")
    tree.command("docker-compose")
    tree.run("scripts/compose.sh", "ps")
    assert tree.calls()[-1] == "docker compose --project-name mcp-code-executor ps"


def test_the_older_compose_is_used_without_the_plugin(tree: Tree) -> None:
    tree.command("docker", OLD_COMPOSE_ONLY)
    tree.command("docker-compose")
    tree.run("scripts/compose.sh", "ps")
    assert tree.calls()[-1] == "docker-compose --project-name mcp-code-executor ps"


def test_an_engine_on_another_machine_is_refused_because_the_daemon_needs_its_socket(tree: Tree) -> None:
    tree.command("docker")
    ended = tree.run("scripts/compose.sh", "up", DOCKER_HOST="tcp://engine.invalid:2375")
    assert ended.returncode == 1
    assert "needs its socket on this machine" in ended.stderr


def test_a_taken_port_is_refused_with_another_to_choose(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    tree.command("ss", """echo 'LISTEN 0 5 127.0.0.1:1 0.0.0.0:* users:(("nginx",pid=42,fd=3))'""")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 1
    assert "is taken by nginx (pid 42)" in ended.stderr
    assert "CODE_EXECUTOR_PUBLISH=" in ended.stderr


def test_an_address_of_another_machine_cannot_be_published(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH="192.0.2.1:9091")
    assert ended.returncode == 1
    assert "192.0.2.1:9091 cannot be published here" in ended.stderr


def test_a_port_alone_is_not_published_on_every_network(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    for publish in ("9091", ":9091"):
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=publish)
        assert ended.returncode == 1
        assert "it has no address; for this machine only, write 127.0.0.1:9091" in ended.stderr


def test_a_port_that_no_machine_has_cannot_be_published(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    for publish in ("127.0.0.1:99999", "127.0.0.1:http"):
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=publish)
        assert ended.returncode == 1
        assert f"{publish} cannot be published here" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_role_file_that_the_daemon_cannot_read_is_refused(tree: Tree) -> None:
    (tree.path / "roles.json").chmod(0o600)
    ended = tree.run("scripts/up.sh")
    assert ended.returncode == 1
    assert "chmod a+r roles.json" in ended.stderr


def test_a_role_file_in_a_directory_that_nobody_else_may_enter_is_refused(tree: Tree) -> None:
    tree.path.chmod(0o700)
    ended = tree.run("scripts/up.sh")
    assert ended.returncode == 1
    assert f"chmod a+x {tree.path}" in ended.stderr


def test_the_directory_of_the_role_file_is_mounted_wherever_it_is(tree: Tree) -> None:
    tree.command("docker", 'echo "$ROLES_FILE_DIRECTORY $ROLES_FILE_NAME" >>seen')
    assert tree.run("scripts/compose.sh", "ps").returncode == 0
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_ROLES_FILE="own/mine.json").returncode == 0
    seen = (tree.path / "seen").read_text().splitlines()
    assert {line for line in seen if line.strip()} == {f"{tree.path} roles.json", f"{tree.path}/own mine.json"}
    assert seen[-1] == f"{tree.path}/own mine.json"


def test_a_daemon_that_ends_at_once_shows_its_last_words(tree: Tree) -> None:
    tree.command(
        "docker",
        'case "$1" in inspect) echo exited ;; logs) echo "roles.json: not JSON" ;; port) exit 1 ;; run) echo 0 ;; esac',
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=f"127.0.0.1:{port}", DOCKER_HOST="unix:///run/d.sock")
    assert ended.returncode == 1
    assert "The daemon is exited" in ended.stderr
    assert "roles.json: not JSON" in ended.stderr


class NeverReady(Ready):
    def do_GET(self) -> None:  # so it is called
        problem = {"code": "runtime_missing", "detail": "The engine has no runtime x.", "hint": "Set another."}
        self.send_response(503)
        self.end_headers()
        self.wfile.write(json.dumps(problem).encode())


def test_a_daemon_that_can_never_be_ready_is_not_waited_for_and_says_why(tree: Tree) -> None:
    with answering(NeverReady) as address:
        tree.command("docker", f'case "$1" in port) echo {address} ;; inspect) echo running ;; esac')
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=address, DOCKER_HOST="unix:///run/d.sock")
    assert ended.returncode == 1
    assert "It is not ready: The engine has no runtime x. Set another." in ended.stderr
    assert "ready at" not in ended.stdout


def test_a_warning_about_settings_is_shown_although_the_start_goes_on(tree: Tree) -> None:
    says = "code-executor: warning: CODE_EXECUTOR_RUNTIM is not a setting."
    (tree.path / ".venv" / "bin" / "code-executor").write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    with answering(Ready) as address:
        tree.command("docker", f'case "$1" in port) echo {address} ;; inspect) echo running ;; esac')
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=address, DOCKER_HOST="unix:///run/d.sock")
    assert ended.returncode == 0, ended.stderr
    assert "  CODE_EXECUTOR_RUNTIM is not a setting." in ended.stderr.splitlines()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            'echo "$CODE_EXECUTOR_URL/#code=x"; echo "code-executor: the link works once, within 60 s" >&2',
            "console: http://{address}/#code=x (works once, within 60 s; "
            "'.venv/bin/code-executor console' makes another)",
        ),
        (
            "echo 'code-executor: The daemon is older.' >&2; exit 69",
            "console: '.venv/bin/code-executor console' opens it",
        ),
        ("exit 0", "console: '.venv/bin/code-executor console' opens it"),
    ],
    ids=["made", "refused", "nothing"],
)
def test_a_start_ends_with_the_way_to_the_console_and_leaves_the_link_in_no_log(
    tree: Tree, command: str, told: str
) -> None:
    body = f'#!/bin/sh\n[ "$*" = "console --no-open" ] || exit 0\n{command}\n'
    (tree.path / ".venv" / "bin" / "code-executor").write_text(body)
    elsewhere = {"CODE_EXECUTOR_URL": "http://elsewhere.invalid"}
    with answering(Ready) as address:
        tree.command("docker", f'case "$1" in port) echo {address} ;; inspect) echo running ;; esac')
        settings = {"CODE_EXECUTOR_PUBLISH": address, "DOCKER_HOST": "unix:///run/d.sock", **elsewhere}
        ended = tree.run("scripts/up.sh", **settings)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == told.format(address=address)
    logs = (tree.path / ".build" / "log").iterdir()
    assert not any("#code=" in log.read_text() for log in logs)


@pytest.mark.parametrize(("told", "known"), [("echo 0123", "0123\n"), ("exit 1", "")])
def test_a_start_remembers_whose_sandboxes_are_to_be_removed_later(tree: Tree, told: str, known: str) -> None:
    with answering(Ready) as address:
        tree.command("docker", f'case "$1" in port) echo {address} ;; exec) {told} ;; inspect) echo running ;; esac')
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=address, DOCKER_HOST="unix:///run/d.sock")
    assert ended.returncode == 0, ended.stderr
    assert f"ready at http://{address}" in ended.stdout
    assert (tree.path / ".build" / "owner").read_text() == known


def test_what_a_start_that_fails_has_made_is_known_to_be_from_here(tree: Tree) -> None:
    tree.command("docker", SERVERS_RUN)
    assert start(tree).returncode == 1
    assert (tree.path / ".build" / "owner").exists()


@pytest.mark.parametrize(
    ("publish", "url"),
    [
        ("127.0.0.1:9091", "http://127.0.0.1:9091"),
        ("0.0.0.0:9191", "http://127.0.0.1:9191"),
        ("[::1]:9091", "http://[::1]:9091"),
        ("10.0.0.7:80", "http://10.0.0.7:80"),
    ],
)
def test_the_published_address_is_reached_from_this_machine(tree: Tree, publish: str, url: str) -> None:
    assert tree.bash("api_url", CODE_EXECUTOR_PUBLISH=publish).stdout == url


def test_a_setting_comes_from_the_environment_before_the_file_before_the_default(tree: Tree) -> None:
    ask = "configured CODE_EXECUTOR_PUBLISH default"
    assert tree.bash(ask).stdout == "default"
    Path(tree.path / ".env").write_text('CODE_EXECUTOR_PUBLISH="file"\n')
    assert tree.bash(ask).stdout == "file"
    assert tree.bash(ask, CODE_EXECUTOR_PUBLISH="environment").stdout == "environment"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NAME=plain", "plain"),
        ("  NAME = with spaces inside  ", "with spaces inside"),
        ("export NAME=exported", "exported"),
        ("NAME='single'", "single"),
        ('NAME="double"', "double"),
        ("export NAME='both' # of them", "both"),
        ("NAME=plain # with a comment", "plain"),
        ('NAME="not # a comment" # a comment', "not # a comment"),
        ("NAME=not#a#comment", "not#a#comment"),
        ("""NAME=["a", "b"]""", """["a", "b"]"""),
        ("NAME='[\"a\"]'", '["a"]'),
        ("NAME=windows\r", "windows"),
        ("NAME=first\nOTHER_NAME=other\nNAME=last\n# NAME=off", "last"),
        ("NAME=kept\nNAME='not closed\nNAME='more' than one", "kept"),
        ("NAME=kept\nOTHER='\nNAME=inside\n'", "kept"),
        ("NAME=#plain", "#plain"),
        ("NAME=a\\tb", "a\\tb"),
        ("NAME='a\\tb \\\\c'", "a\\tb \\c"),
        ('NAME="a\\tb \\"c\\""', 'a\tb "c"'),
        ("PLACE=here\nNAME=${PLACE}/${ELSEWHERE:-there}${NOWHERE}", "here/there"),
        ("NAME=größer", "größer"),
    ],
)
def test_every_part_reads_a_line_of_the_settings_file_alike(tree: Tree, line: str, value: str) -> None:
    tree.command("docker")
    file = tree.path / ".env"
    file.write_text(line.replace("NAME", "CODE_EXECUTOR_X") + "\n", encoding="utf-8")
    assert dotenv_values(file)["CODE_EXECUTOR_X"] == value, "what the commands read"
    assert tree.bash("configured CODE_EXECUTOR_X default").stdout == value
    assert tree.run("scripts/compose.sh", "ps").returncode == 0
    # The older compose reads it with python-dotenv; the newer one takes what is in single quotes as it is.
    assert settings_of_daemon(tree)[0] == f"CODE_EXECUTOR_X='{value}'"
    assert dotenv_values(tree.path / ".build" / "daemon.env")["CODE_EXECUTOR_X"] == value


def test_the_settings_file_can_be_read_before_there_is_an_environment(tree: Tree) -> None:
    (tree.path / ".venv" / "bin" / "python").unlink()
    (tree.path / ".env").write_text("CODE_EXECUTOR_PUBLISH=file\n")
    assert tree.bash("configured CODE_EXECUTOR_PUBLISH default", PYTHON=sys.executable).stdout == "file"


def test_a_setting_that_is_empty_gives_way_to_the_next(tree: Tree) -> None:
    (tree.path / ".env").write_text("CODE_EXECUTOR_PUBLISH=''\n")
    assert tree.bash("configured CODE_EXECUTOR_PUBLISH default", CODE_EXECUTOR_PUBLISH="").stdout == "default"


@pytest.mark.parametrize("value", ["it's", "a\nb", "a\\"], ids=["quote", "line break", "backslash"])
def test_a_value_that_cannot_be_handed_to_the_daemon_is_refused_by_its_name(tree: Tree, value: str) -> None:
    tree.command("docker")
    ended = tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_MATRIX_TOKEN=value)
    assert ended.returncode == 1
    assert "The value of CODE_EXECUTOR_MATRIX_TOKEN must not contain a single quote or a line break" in ended.stderr


SERVERS_RUN = """
case "$*" in
"ps --all"*) printf "mcp-memory p1\\nmcp-minio m1\\nmcp-postgres q1\\n" ;;
"inspect "*) echo exited ;;
"port "*) exit 1 ;;
"run "*) echo 0 ;;
esac"""


def start(tree: Tree, **environment: str) -> subprocess.CompletedProcess[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"CODE_EXECUTOR_PUBLISH": f"127.0.0.1:{port}", "DOCKER_HOST": "unix:///run/d.sock"}
    return tree.run("scripts/up.sh", **settings, **environment)


def enable(tree: Tree, *services: str) -> Path:
    stack = tree.path / ".build" / "stack"
    stack.mkdir(parents=True)
    (stack / "services").write_text("".join(f"{service}\n" for service in services))
    return stack


def test_servers_that_are_disabled_or_have_new_settings_are_replaced(tree: Tree) -> None:
    tree.command("docker", SERVERS_RUN)
    stack = enable(tree, "mcp-postgres", "mcp-memory")
    (stack / "changed").write_text("mcp-memory\n")
    start(tree)
    assert [call for call in tree.calls() if call.startswith("docker rm")] == [
        "docker rm --force p1",
        "docker rm --force m1",
    ]
    assert not (stack / "changed").exists()


def networks_changed(tree: Tree, internal: bool) -> list[str]:
    """What a start does on an engine that has the network of a server, one that reaches the internet."""
    tree.command(
        "docker",
        """case "$*" in
"network inspect --format {{.Internal}} mcp-backend-n8n") echo false ;;
"ps --all --filter network="*"--filter label="*) printf "mcp-n8n\nmcp-code-executor\n" ;;
"ps --all --filter network="*) echo a-container-of-the-user ;;
"inspect "*) echo exited ;;
"port "*) exit 1 ;;
esac""",
    )
    stack = enable(tree)
    network = {"name": "${STACK_PREFIX:-}mcp-backend-n8n", "internal": internal}
    (stack / "networks.yaml").write_text(json.dumps({"services": {}, "networks": {"n8n": network}}))
    start(tree)
    words = ("docker stop", "docker rm", "docker network disconnect", "docker network rm")
    return [call for call in tree.calls() if call.startswith(words)]


def test_a_network_that_is_no_longer_to_reach_the_internet_is_made_anew_with_those_on_it(tree: Tree) -> None:
    assert networks_changed(tree, internal=True) == [
        "docker rm --force mcp-n8n",
        "docker stop --time 30 mcp-code-executor",
        "docker rm --force mcp-code-executor",
        "docker network disconnect --force mcp-backend-n8n a-container-of-the-user",
        "docker network rm mcp-backend-n8n",
    ]


def test_a_network_that_is_as_it_should_be_stays(tree: Tree) -> None:
    assert networks_changed(tree, internal=False) == []


def test_a_network_of_an_own_server_that_cannot_be_changed_is_told_and_the_start_goes_on(tree: Tree) -> None:
    fails = '"network inspect"*) echo odd ;; "network rm"*) echo "in use" >&2; exit 1 ;; "inspect "*) echo exited ;;'
    tree.command("docker", f'case "$*" in {fails} esac')
    enable(tree, "mcp-own-one")
    ended = start(tree)
    assert "A network of your own servers could not be changed: in use" in ended.stderr
    assert [call for call in tree.calls() if " up -d orchestrator" in call]


def handed_over(tree: Tree) -> list[str]:
    """Of each container that gives volumes away: its mounts, then the new owner and the places."""
    runs = [call.split() for call in tree.calls() if call.startswith("docker run") and "--cap-add CHOWN" in call]
    mounts = [[word for word in run if word.startswith("mcp-code-executor-")] for run in runs]
    return [" ".join((*names, *run[run.index("-") + 1 :])) for names, run in zip(mounts, runs, strict=True)]


@pytest.mark.parametrize(
    ("services", "settings", "expected"),
    [
        (["mcp-filesystem", "mcp-memory"], {}, "10002:10002 /volumes/workspace /volumes/memory"),
        (["mcp-postgres", "mcp-memory"], {}, "10002:10002 /volumes/memory"),
        (["mcp-proxy"], {}, "0:0 /volumes/workspace /volumes/memory"),
        (["mcp-proxy"], {"MCP_PROXY_USER": "1000"}, "1000 /volumes/workspace /volumes/memory"),
    ],
)
def test_the_volumes_are_given_to_the_user_of_whoever_is_started(
    tree: Tree, services: list[str], settings: dict[str, str], expected: str
) -> None:
    tree.command("docker", SERVERS_RUN)
    enable(tree, *services)
    ended = start(tree, **settings)
    owner, *places = expected.split()
    names = [place.removeprefix("/volumes/") for place in places]
    mounts = " ".join(f"mcp-code-executor-{name}:/volumes/{name}" for name in names)
    assert handed_over(tree) == [f"{mounts} {owner} {' '.join(places)}"]
    assert "could not be given" not in ended.stderr
    calls = tree.calls()
    given = next(number for number, call in enumerate(calls) if "--cap-add CHOWN" in call)
    started = next(number for number, call in enumerate(calls) if "up -d" in call)
    removed = [number for number, call in enumerate(calls) if call.startswith("docker rm")]
    assert max(removed) < given < started


def test_servers_without_such_volumes_give_nothing_away(tree: Tree) -> None:
    tree.command("docker", SERVERS_RUN)
    enable(tree, "mcp-postgres", "mcp-postgres-server")
    start(tree)
    assert handed_over(tree) == []


def test_volumes_that_cannot_be_given_away_are_told_and_the_servers_start(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in *CHOWN*) echo "no space" >&2; exit 1 ;; esac\n' + SERVERS_RUN)
    enable(tree, "mcp-memory")
    ended = start(tree)
    assert "the files on these volumes could not be given to the user 10002:10002" in ended.stderr
    assert "no space" in ended.stderr
    assert [call for call in tree.calls() if "up -d" in call]


def test_a_user_by_name_is_refused_because_only_its_image_knows_the_number(tree: Tree) -> None:
    tree.command("docker", SERVERS_RUN)
    enable(tree, "mcp-proxy")
    ended = start(tree, MCP_PROXY_USER="node")
    assert "must be a number, as in 1000 or 1000:1000, not node" in ended.stderr
    assert handed_over(tree) == []


def test_a_volume_that_is_not_there_yet_is_made_as_compose_would_make_it(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in "volume inspect"*) exit 1 ;; esac\n' + SERVERS_RUN)
    enable(tree, "mcp-memory")
    start(tree)
    project, volume = "com.docker.compose.project=mcp-code-executor", "com.docker.compose.volume=memory"
    assert [call for call in tree.calls() if call.startswith("docker volume create")] == [
        f"docker volume create --label {project} --label {volume} mcp-code-executor-memory"
    ]


def test_the_daemon_starts_although_a_server_does_not(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in *"up -d"*mcp-memory*) echo "no space" >&2; exit 1 ;; esac\n' + SERVERS_RUN)
    enable(tree, "mcp-postgres", "mcp-memory")
    ended = start(tree)
    assert "mcp-memory did not start and is left out: no space" in ended.stderr
    started = [call.split("up -d ")[1] for call in tree.calls() if "up -d" in call]
    assert started == ["mcp-postgres mcp-memory", "mcp-postgres", "mcp-memory", "orchestrator"]


def test_without_servers_only_the_daemon_is_started(tree: Tree) -> None:
    tree.command("docker", 'case "$1" in inspect) echo exited ;; port) exit 1 ;; esac')
    start(tree)
    assert [call.split("up -d ")[1] for call in tree.calls() if "up -d" in call] == ["orchestrator"]


def test_a_servers_file_of_your_own_is_mounted_with_its_directory(tree: Tree) -> None:
    tree.command("docker", 'echo "$SERVERS_FILE_DIRECTORY $SERVERS_FILE_NAME" >>seen')
    own = tree.path / "own" / "mine.json"
    own.parent.mkdir()
    own.write_text('{"mcpServers": {"a": {"url": "http://a", "headers": {"X": "${A_KEY}"}}}}')
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_SERVERS_FILE=str(own), A_KEY="k").returncode == 0
    assert (tree.path / "seen").read_text().splitlines()[-1] == f"{own.parent} mine.json"
    assert settings_of_daemon(tree) == ["A_KEY='k'"]


@pytest.mark.parametrize("own", ["", "compose.yaml:scripts/extra-network.yaml"])
def test_compose_adds_the_networks_of_the_servers_to_its_files(tree: Tree, own: str) -> None:
    tree.command("docker", 'echo "$COMPOSE_FILE" >>seen')
    (tree.path / ".env").write_text(f"COMPOSE_FILE={own}\n")
    assert tree.run("scripts/compose.sh", "ps").returncode == 0
    added = tree.path / ".build" / "stack" / "networks.yaml"
    assert (tree.path / "seen").read_text().splitlines()[-1] == f"{own or 'compose.yaml'}:{added}"


def test_a_servers_file_beside_the_keys_is_refused(tree: Tree) -> None:
    tree.command("docker")
    (tree.path / "servers.json").write_text("{}")
    ended = tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_SERVERS_FILE="servers.json")
    assert ended.returncode == 1
    assert "a directory of its own" in ended.stderr


def test_compose_gets_the_secrets_that_exist_and_what_the_stack_has_chosen(tree: Tree) -> None:
    tree.command("docker", 'echo "$MCP_POSTGRES_PASSWORD $MCP_PROXY_IMAGE ${MCP_S3_SECRET:-none}" >>seen')
    (tree.path / "secrets").mkdir()
    (tree.path / "secrets" / "mcp-postgres.password").write_text("secret\n")
    (enable(tree) / "compose.env").write_text("MCP_PROXY_IMAGE=pulled:1\n")
    assert tree.run("scripts/compose.sh", "ps").returncode == 0
    assert (tree.path / "seen").read_text().splitlines()[-1] == "secret pulled:1 none"
    assert settings_of_daemon(tree) == []
