"""The server of MCP: seven tools, and nothing else of the protocol."""

import json
from collections.abc import Callable
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from allowance_mcp.descriptions import INSTRUCTIONS, describe_tools
from allowance_mcp.tools import TOOLS, Answer, Caller, call

VERSION = "0.3.0"
# Finds whom a call is for: the one of this process, or the one who sent this HTTP request.
FindCaller = Callable[[ServerRequestContext[Any, Any]], Caller]


def make_server(find_caller: FindCaller) -> Server[Any]:
    """Make a server whose calls are for whom `find_caller` finds."""
    tools = types.ListToolsResult(tools=describe_tools())

    async def list_tools(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return tools

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(code=types.INVALID_PARAMS, message="There is no such tool.")
        return _result(await call(params.name, find_caller(context), params.arguments or {}))

    return Server(
        "allowance",
        title="Allowance",
        version=VERSION,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(answer: Answer) -> types.CallToolResult:
    """Give the answer as structured content, and as JSON to those who read text alone: nothing stands outside of it."""
    text = json.dumps(answer.content, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=answer.content,
        is_error=answer.is_error,
    )
