"""Every route of the HTTP API in one table; the server and openapi.json are both made from it."""

from __future__ import annotations

from orchestrator.catalog.replies import FoundTools, ToolInfo, ToolListing
from orchestrator.domain.errors import (
    AlreadyFinished,
    AlreadyInterrupted,
    BodyTooSlow,
    ChatNotConfigured,
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    ChatUnconfirmed,
    CodeTooLarge,
    EngineUnavailable,
    IdempotencyMismatch,
    IntakeFull,
    InvalidArguments,
    JournalUnavailable,
    LimitExceeded,
    LockdownMismatch,
    MalformedJson,
    NotFound,
    NotReady,
    OrchestratorError,
    QueueFull,
    RangeNotSatisfiable,
    RoomDenied,
    RoomNotFound,
    RunnerImageMissing,
    SandboxFault,
    ShuttingDown,
    ToolDenied,
    ToolNotFound,
    UnsupportedContentType,
)
from orchestrator.faces.bodies import ExecutionDetail, ExecutionReply
from orchestrator.faces.http import chat, execute, executions, operations, tools
from orchestrator.faces.http.problems import PROBLEM_JSON
from orchestrator.faces.http.route import Errors, Parameter, Reply, Route
from orchestrator.service.chat_bodies import MembersBody, MessagesBody, SendArguments, SentBody

EXECUTION = Parameter("id", "path", "The execution's id.")
SERVER = Parameter("server", "path", "The server's name.")
TOOL = Parameter("tool", "path", "The tool's name.")
RANGE = Parameter("Range", "header", "The bytes that are wanted, as `bytes=FIRST-LAST`.")
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "Requests with the same key share one execution, also after a restart. One that was cut off before it called a "
    "tool is run again; one that had called tools is not.",
    {"type": "string", "minLength": 1, "maxLength": execute.MAX_IDEMPOTENCY_KEY},
)
BODY_ERRORS: Errors = (MalformedJson, UnsupportedContentType, CodeTooLarge, BodyTooSlow, IntakeFull)
NOT_NOW: Errors = (
    ShuttingDown,
    NotReady,
    EngineUnavailable,
    RunnerImageMissing,
    LockdownMismatch,
    SandboxFault,
    JournalUnavailable,
)
CHAT_ERRORS: Errors = (
    InvalidArguments,
    ToolDenied,
    RoomDenied,
    RoomNotFound,
    LimitExceeded,
    ChatNotConfigured,
    ChatRateLimited,
    ChatRefused,
    ChatUnavailable,
    JournalUnavailable,
)

ROUTES = (
    Route(
        "POST",
        "/execute",
        execute.execute,
        "execute",
        "Run a program in a fresh sandbox",
        (
            Reply(
                "How the program ended; a program that fails is a result, too.", ExecutionReply, events=execute.EVENTS
            ),
        ),
        body=execute.ExecuteRequest,
        parameters=(IDEMPOTENCY_KEY,),
        errors=(*BODY_ERRORS, IdempotencyMismatch, AlreadyInterrupted, QueueFull, *NOT_NOW, OrchestratorError),
    ),
    Route(
        "GET",
        "/executions",
        executions.list_executions,
        "listExecutions",
        "List executions, newest first: your own, or everybody's for a role that sees all",
        (Reply("The executions that fit.", executions.ExecutionList),),
        query=executions.ExecutionsQuery,
        errors=(JournalUnavailable,),
    ),
    Route(
        "GET",
        "/executions/{id}",
        executions.get_execution,
        "getExecution",
        "Read one execution with its output, whole or from an offset on",
        (Reply("The execution.", ExecutionDetail),),
        query=executions.ExecutionQuery,
        parameters=(EXECUTION,),
        errors=(NotFound, JournalUnavailable),
    ),
    Route(
        "GET",
        "/executions/{id}/output",
        executions.get_output,
        "getOutput",
        "Read the raw bytes of one stream, whole or by range",
        (
            Reply("The whole stream.", media_type=executions.OCTETS),
            Reply("The range that was asked for.", media_type=executions.OCTETS, status=206),
        ),
        query=executions.OutputQuery,
        parameters=(EXECUTION, RANGE),
        errors=(NotFound, RangeNotSatisfiable, JournalUnavailable),
    ),
    Route(
        "DELETE",
        "/executions/{id}",
        executions.cancel_execution,
        "cancelExecution",
        "Cancel an execution; the answer comes once it has ended",
        (Reply("The result, with the outcome `cancelled`.", ExecutionReply),),
        parameters=(EXECUTION,),
        errors=(NotFound, AlreadyFinished, JournalUnavailable),
    ),
    Route(
        "GET",
        "/tools",
        tools.list_tools,
        "listTools",
        "List the tools that you may use, by server, with the problems of servers that are down",
        (Reply("The tools, grouped by server.", ToolListing),),
        query=tools.ToolsQuery,
    ),
    Route(
        "GET",
        "/tools/search",
        tools.search_tools,
        "searchTools",
        "Find tools by what they do",
        (Reply("The tools, best first.", FoundTools),),
        query=tools.SearchQuery,
    ),
    Route(
        "GET",
        "/tools/info/{server}/{tool}",
        tools.tool_info,
        "getToolInfo",
        "Describe one tool: its schemas, and import, signature and an example call in each language",
        (Reply("The tool.", ToolInfo),),
        parameters=(SERVER, TOOL),
        errors=(ToolDenied, ToolNotFound),
    ),
    Route(
        "GET",
        "/whoami",
        operations.whoami,
        "whoAmI",
        "Tell who you are and what your role may use",
        (Reply("The caller and its role.", operations.WhoAmI),),
    ),
    Route(
        "POST",
        "/chat/send",
        chat.send,
        "sendMessage",
        "Post a message to a chat room",
        (Reply("The message is in the room.", SentBody),),
        body=SendArguments,
        errors=(*BODY_ERRORS, *CHAT_ERRORS, ChatUnconfirmed),
    ),
    Route(
        "GET",
        "/chat/read",
        chat.read,
        "readMessages",
        "Read the newest messages of a chat room, or those since or before an earlier answer",
        (Reply("The messages, oldest first.", MessagesBody),),
        query=chat.ReadQuery,
        errors=CHAT_ERRORS,
    ),
    Route(
        "GET",
        "/chat/who",
        chat.who,
        "listMembers",
        "List the members of a chat room",
        (Reply("The members.", MembersBody),),
        query=chat.RoomQuery,
        errors=CHAT_ERRORS,
    ),
    Route(
        "GET",
        "/health",
        operations.health,
        "getHealth",
        "Tell how the daemon is and which tools it has",
        (Reply("The daemon answers.", operations.Health),),
        public=True,
    ),
    Route(
        "GET",
        "/livez",
        operations.livez,
        "isAlive",
        "Tell that the daemon runs",
        (Reply("It runs.", operations.Alive),),
        public=True,
    ),
    Route(
        "GET",
        "/readyz",
        operations.readyz,
        "isReady",
        "Tell whether an execution would work now",
        (
            Reply("It would.", operations.Ready),
            Reply("It would not, and why.", operations.Unready, PROBLEM_JSON, status=503),
        ),
        public=True,
    ),
    Route(
        "GET",
        "/metrics",
        operations.metrics,
        "getMetrics",
        "Read the metrics in Prometheus' format",
        (Reply("The metrics.", media_type="text/plain"),),
    ),
    Route(
        "GET",
        "/openapi.json",
        operations.openapi,
        "getOpenApi",
        "Read this description",
        (Reply("An OpenAPI 3.1 document.", media_type="application/json"),),
    ),
    Route(
        "GET",
        "/docs",
        operations.docs,
        "getDocs",
        "Read this description as a page",
        (Reply("A page that works offline.", media_type="text/html"),),
    ),
)
