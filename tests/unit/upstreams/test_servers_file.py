import json

import pytest
from structlog.testing import capture_logs

from orchestrator.upstreams.entries import HttpKind, HttpServer, StdioServer, UnusableServer
from orchestrator.upstreams.servers_file import ServersFileInvalid, read_servers

SECRET = "s3cr3t-t0ken"


@pytest.fixture
def read(tmp_path):
    def read(document, **environment):
        file = tmp_path / "servers.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
        return {entry.name: entry for entry in read_servers(file, environment)}

    return read


def one(entries):
    (entry,) = entries.values()
    return entry


def test_a_missing_file_names_no_servers(tmp_path):
    assert read_servers(tmp_path / "servers.json", {}) == ()


def test_an_empty_document_names_no_servers(read):
    assert read({}) == {}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"url": "http://a/mcp"}, HttpKind.STREAMABLE),
        ({"url": "http://a/mcp", "type": "http"}, HttpKind.STREAMABLE),
        ({"url": "http://a/mcp", "type": "streamable-http"}, HttpKind.STREAMABLE),
        ({"url": "http://a/mcp", "type": "sse"}, HttpKind.SSE),
        ({"url": "http://a/sse"}, HttpKind.SSE),
        ({"url": "http://a/sse", "type": "http"}, HttpKind.STREAMABLE),
    ],
)
def test_the_type_decides_the_transport_and_an_sse_path_when_there_is_none(read, body, kind):
    assert one(read({"mcpServers": {"a": body}})).kind is kind


def test_variables_are_expanded_wherever_a_value_stands(read):
    entries = read(
        {
            "mcpServers": {
                "web": {"url": "http://${HOST}:1/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "own": {
                    "command": "${RUN:-node}",
                    "args": ["--dir=${DIR:-/data}", "$PLAIN", "${EMPTY:-filled}"],
                    "env": {"KEY": "${TOKEN}"},
                    "cwd": "/x/${HOST}",
                },
            }
        },
        HOST="h",
        TOKEN=SECRET,
        EMPTY="",
    )
    assert entries["web"] == HttpServer(
        "web", "http://h:1/mcp", HttpKind.STREAMABLE, {"Authorization": f"Bearer {SECRET}"}
    )
    own = entries["own"]
    assert (own.command, own.args, own.cwd) == ("node", ("--dir=/data", "$PLAIN", "filled"), "/x/h")
    assert own.env == {"KEY": SECRET}


def test_a_program_inherits_what_it_needs_to_run_and_none_of_our_keys(read):
    server = one(read({"mcpServers": {"a": {"command": "x"}}}, PATH="/bin", HOME="/root", CODE_EXECUTOR_KEY=SECRET))
    assert server.env == {"PATH": "/bin", "HOME": "/root"}


def test_a_missing_variable_fails_its_server_alone_and_says_where(read):
    entries = read(
        {
            "mcpServers": {
                "good": {"url": "http://a/mcp"},
                "bad": {"url": "http://b/mcp", "headers": {"X-Key": "${NOT_SET}"}},
            }
        }
    )
    assert isinstance(entries["good"], HttpServer)
    assert entries["bad"] == UnusableServer("bad", "servers.json, line 6: the variable NOT_SET is not set")


@pytest.mark.parametrize(
    "url", ["ftp://a/x", "a/mcp", "http://", "http://a:notaport/", "http://a b/", "http://a/\nX: y", "${EMPTY}"]
)
def test_an_unusable_address_fails_its_server_alone(read, url):
    entries = read({"mcpServers": {"good": {"url": "http://a/mcp"}, "bad": {"url": url}}}, EMPTY="")
    assert isinstance(entries["good"], HttpServer)
    assert "must be a valid http or https address" in entries["bad"].problem


def test_a_header_with_a_line_break_fails_its_server_alone_without_telling_the_value(read):
    document = {"mcpServers": {"a": {"url": "http://a/", "headers": {"X-Key": "${TOKEN}"}}}}
    problem = one(read(document, TOKEN=f"{SECRET}\n")).problem
    assert "X-Key must not contain line breaks" in problem
    assert SECRET not in problem


def test_the_proxy_form_makes_one_server_for_each_name(read):
    entries = read(
        {"proxy": {"url": "http://p:1/", "servers": ["a", "b"], "path": "/servers/{server}/mcp", "token": "${T}"}},
        T=SECRET,
    )
    headers = {"Authorization": f"Bearer {SECRET}"}
    assert entries["a"] == HttpServer("a", "http://p:1/servers/a/mcp", HttpKind.STREAMABLE, headers)
    assert entries["b"].url == "http://p:1/servers/b/mcp"


def test_the_proxy_form_has_the_address_of_the_default_stack(read):
    server = one(read({"proxy": {"servers": ["postgres"]}}))
    assert server == HttpServer("postgres", "http://mcp-proxy:9090/postgres/mcp", HttpKind.STREAMABLE, {})


@pytest.mark.parametrize(
    ("more", "path", "kind"),
    [
        ({"type": "sse"}, "/a/sse", HttpKind.SSE),
        ({"type": "sse", "path": "/mcp/{server}"}, "/mcp/a", HttpKind.SSE),
        ({"path": "/{server}/sse"}, "/a/sse", HttpKind.SSE),
        ({"type": "http"}, "/a/mcp", HttpKind.STREAMABLE),
        ({"type": "streamable-http", "path": "/{server}/sse"}, "/a/sse", HttpKind.STREAMABLE),
    ],
)
def test_the_proxy_form_knows_both_kinds_of_http(read, more, path, kind):
    server = one(read({"proxy": {"url": "http://p:1", "servers": ["a"], **more}}))
    assert server == HttpServer("a", f"http://p:1{path}", kind, {})


def test_a_proxy_that_speaks_stdio_is_refused(read):
    with pytest.raises(ServersFileInvalid, match=r"proxy\.type"):
        read({"proxy": {"servers": ["a"], "type": "stdio"}})


def test_a_proxy_token_that_is_not_set_fails_the_servers_behind_the_proxy_alone(read):
    entries = read({"mcpServers": {"a": {"command": "x"}}, "proxy": {"servers": ["b"], "token": "${NOT_SET}"}})
    assert isinstance(entries["a"], StdioServer)
    assert "NOT_SET is not set" in entries["b"].problem


def test_secrets_are_in_no_repr(read):
    entries = read(
        {
            "mcpServers": {
                "web": {"url": "http://u:${T}@a/mcp?key=${T}", "headers": {"X": "${T}"}},
                "own": {"command": "x", "args": ["${T}"], "env": {"K": "${T}"}},
            },
            "proxy": {"servers": ["p"], "token": "${T}"},
        },
        T=SECRET,
    )
    assert len(entries) == 3
    assert SECRET not in repr(entries)


def test_a_program_s_words_are_redacted(read):
    document = {"mcpServers": {"a": {"command": "x", "args": ["--url=pg://${T}@h"], "env": {"K": "other-secret"}}}}
    server = one(read(document, T=SECRET))
    assert server.redact(f"cannot use {SECRET} or other-secret") == "cannot use *** or ***"


def test_a_disabled_server_is_left_out(read):
    assert list(read({"mcpServers": {"a": {"command": "x", "disabled": True}, "b": {"command": "x"}}})) == ["b"]


def test_keys_of_other_clients_are_ignored_and_logged(read):
    with capture_logs() as logs:
        read({"mcpServers": {"a": {"command": "x", "autoApprove": ["y"]}}})
    assert logs == [{"event": "servers_file.key_ignored", "log_level": "warning", "server": "a", "key": "autoApprove"}]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{\n "mcpServers": {\n', 3, "Expecting property name"),
        ("[]", 1, "valid dictionary"),
        ('{\n "mcpServers": {},\n "servers": {}\n}', 3, "servers: Extra inputs"),
        ('{"mcpServers": {\n "a": {"url": "http://a"},\n "b": {\n  "url": 7}}}', 4, "mcpServers.b.url"),
        ('{"mcpServers": {\n "a": {"url": "http://a"},\n "b": {}}}', 3, "needs either a url or a command"),
        ('{"mcpServers": {\n "b": {"url": "http://a", "command": "x"}}}', 2, "needs either a url or a command"),
        ('{"mcpServers": {\n "b": {"command": "x", "type": "sse"}}}', 2, "type that does not fit"),
        ('{"mcpServers": {\n\n "b": {"url": "http://a", "type": "carrier-pigeon"}}}', 3, "mcpServers.b.type"),
        ('{"mcpServers": {\n\n "../x": {"command": "x"}}}', 3, "should match pattern"),
        ('{"mcpServers": {\n "a": {"command": "x"},\n "a": {"command": "y"}}}', 3, "a appears twice"),
        ('{"mcpServers": {\n "a": {"command": "x"}},\n "proxy": {"servers": [\n"a"]}}', 4, "a appears twice"),
        ('{"proxy": {\n "servers": ["a",\n "a"]}}', 3, "a appears twice"),
        ('{\n"proxy": {"servers": ["a"],\n "path": "/mcp"}}', 3, "proxy.path"),
        ('{\n"proxy": {}}', 2, "proxy.servers: Field required"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(read, text, line, words):
    with pytest.raises(ServersFileInvalid) as error:
        read(text)
    assert f"servers.json, line {line}: " in str(error.value)
    assert words in str(error.value)


def test_a_file_error_does_not_quote_values(read):
    with pytest.raises(ServersFileInvalid) as error:
        read({"mcpServers": {"a": {"url": "http://a", "headers": {"Authorization": [SECRET]}}}})
    assert SECRET not in str(error.value)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    file = tmp_path / "servers.json"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ServersFileInvalid, match="not UTF-8"):
        read_servers(file, {})


def test_a_directory_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(ServersFileInvalid, match="cannot be read"):
        read_servers(tmp_path, {})


@pytest.mark.parametrize("body", [{"url": "http://a/mcp"}, {"url": "http://a/sse"}, {"command": "x"}])
def test_an_entry_may_say_that_contents_are_always_a_list(read, body):
    assert not one(read({"mcpServers": {"a": body}})).lists_contents
    assert one(read({"mcpServers": {"a": {**body, "contents": "list"}}})).lists_contents
    with pytest.raises(ServersFileInvalid, match=r"mcpServers\.a\.contents"):
        read({"mcpServers": {"a": {**body, "contents": "first"}}})


@pytest.mark.parametrize("body", [{"url": "http://a/mcp"}, {"url": "http://a/sse"}, {"command": "x"}])
def test_an_entry_may_ask_for_a_session_per_execution(read, body):
    assert not one(read({"mcpServers": {"a": body}})).has_own_sessions
    assert one(read({"mcpServers": {"a": {**body, "session": "execution"}}})).has_own_sessions
    with pytest.raises(ServersFileInvalid, match=r"mcpServers\.a\.session"):
        read({"mcpServers": {"a": {**body, "session": "caller"}}})


def test_an_entry_may_withhold_tools(read):
    body = {"url": "http://a/mcp"}
    assert one(read({"mcpServers": {"a": body}})).withheld == ()
    assert one(read({"mcpServers": {"a": {**body, "withhold": ["run_*", "x"]}}})).withheld == ("run_*", "x")
    with pytest.raises(ServersFileInvalid, match=r"mcpServers\.a\.withhold"):
        read({"mcpServers": {"a": {**body, "withhold": "run_*"}}})
