"""How an agent uses the MCP server: save, search titles, read what matters, all within a token budget.

The server is a separate process with a store in a temporary folder.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client

SATCHEL = Path(sys.executable).with_name("satchel")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = StdioServerParameters(command=str(SATCHEL), args=["mcp", "--db", str(Path(folder, "demo.db"))])
        async with Client(stdio_client(server)) as client:

            async def call(tool: str, **arguments: Any) -> Any:
                print(f"\n> {tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
                answer = await client.call_tool(tool, arguments)
                print(answer.content[0].text)  # type: ignore[union-attr]
                return answer.structured_content

            saved = await call("mem_save", text="We rotate JWTs every hour.", title="JWT rotation", kind="decision")
            await call("mem_save", text="The old key stays until its tokens expire.", relate_to=[saved["id"]])
            await call("mem_search", query="How do we rotate tokens?", detail_level="summary", max_tokens=100)
            await call("mem_get", id=saved["id"], max_tokens=200)
            await call("mem_context", query="How do we rotate tokens?", max_tokens=150)


if __name__ == "__main__":
    anyio.run(main)
