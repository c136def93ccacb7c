"""Serve one agent over stdio: `python -m allowance_mcp`, by ALLOWANCE_URL and ALLOWANCE_API_KEY of the environment."""

import argparse
import asyncio
import os
import sys

from allowance_client import AsyncAllowance
from allowance_client.errors import ClientError, InvalidApiKey
from mcp.server.stdio import stdio_server

from allowance_mcp.server import make_server
from allowance_mcp.settings import BadSetting, read_key, read_url
from allowance_mcp.tools import PATIENCE_S, TIMEOUT_S, Caller

_ABOUT = "Lets a model spend from one agent's allowance, as a server of MCP over stdin and stdout."
_VARIABLES = """environment:
  ALLOWANCE_URL      address of Allowance, such as https://pay.example.com
  ALLOWANCE_API_KEY  API key that is bound to one agent, with the scopes payments, budgets and logs
"""


def main() -> None:
    """Serve until stdin ends.

    Raises:
        SystemExit: 2, after a sentence about what is missing. The key is never printed.
    """
    parser = argparse.ArgumentParser(
        "python -m allowance_mcp", description=_ABOUT, epilog=_VARIABLES, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args()
    try:
        asyncio.run(_serve(read_url(os.environ), read_key(os.environ)))
    except BadSetting as error:
        parser.exit(2, f"{error}\n")
    except KeyboardInterrupt:
        sys.exit(130)


async def _serve(url: str, key: str) -> None:
    async with AsyncAllowance(url, key, timeout_s=TIMEOUT_S, patience_s=PATIENCE_S) as api:
        caller = Caller(api, await _find_agent(api))
        server = make_server(lambda _context: caller)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


async def _find_agent(api: AsyncAllowance) -> str:
    """Find whom the key is bound to; raises `BadSetting`."""
    try:
        me = await api.me()
    except InvalidApiKey:
        raise BadSetting("Allowance does not accept the key in ALLOWANCE_API_KEY.") from None
    except ClientError as error:
        raise BadSetting(f"Allowance cannot be asked at ALLOWANCE_URL: {type(error).__name__}.") from None
    if me.agent_id is None:
        raise BadSetting("The key in ALLOWANCE_API_KEY is bound to no agent. Make one: create_api_key --agent AGENT.")
    return me.agent_id


if __name__ == "__main__":
    main()
