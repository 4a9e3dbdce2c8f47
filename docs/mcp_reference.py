"""Writes the generated parts of docs/reference/mcp.md: python docs/mcp_reference.py [--check]."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated import write

from satchel.cli.clients.client import CLIENTS, Client, Surroundings
from satchel.cli.clients.entry import remote_entry
from satchel.errors import InputError
from satchel.fitting.listing import as_json
from satchel.server.mcp.catalog import MEMORY_TOOLS, TOOLS
from satchel.server.mcp.guide import CORE, INSTRUCTIONS, TEMPLATES
from satchel.server.mcp.tool import Tool
from satchel.text.tokens import count_tokens

PAGE = Path(__file__).parent / "reference/mcp.md"
EFFECTS = {
    "reads": "read-only",
    "adds": "adds, never removes",
    "sets": "idempotent",
    "ends": "destructive, idempotent",
}


def clients() -> Iterator[str]:
    around = Surroundings("linux", {}, Path("~"))
    yield (
        "| name | client | configuration file (Linux) | with `--local` | a variable in a header | timeouts |\n"
        "|---|---|---|---|---|---|"
    )
    for name, client in CLIENTS.items():
        local = f"`{client.project_file}`" if client.project_file else ""
        timeouts = ", ".join(f"`{key}` {value}" for key, value in client.timeouts.items())
        cells = (f"`{name}`", client.title, f"`{client.file(around)}`", local, reference(client), timeouts)
        yield f"| {' | '.join(cells)} |"


def reference(client: Client) -> str:
    """How a client refers to a variable in a header, or nothing if it cannot."""
    try:
        fields = client.fields(remote_entry("x", "https://x", ["Authorization: Bearer ${TOKEN}"])).values
    except InputError:
        return ""
    if "bearer_token_env_var" in fields:
        return "`bearer_token_env_var`"
    headers: dict[str, str] = fields.get("requestOptions", fields)["headers"]
    return f"`{headers['Authorization'].removeprefix('Bearer ')}`"


def tools() -> Iterator[str]:
    costs = {name: count_tokens(as_json(tool.definition)) for name, tool in TOOLS.items()}
    told = count_tokens(INSTRUCTIONS)
    total, specs, core = (
        told + count_tokens(as_json([TOOLS[name].definition for name in names]))
        for names in (MEMORY_TOOLS, TOOLS, CORE)
    )
    unseen = sum(count_tokens(as_json(tool.definition["annotations"])) for tool in MEMORY_TOOLS.values())
    yield (
        f"The definitions and the instructions cost {total:,} tokens of `o200k_base`; with `--tools core` "
        f"({', '.join(f'`{name}`' for name in CORE)}) {core:,}, and where there are [specs](#specs) {specs:,}. "
        f"About {unseen} of the {total:,} are annotations, which clients keep to themselves.\n"
    )
    yield "| tool | what it does | tokens |\n|---|---|---|"
    for name, tool in TOOLS.items():
        yield f"| [`{name}`](#{name}) | {tool.about} | {costs[name]} |"
    for tool in TOOLS.values():
        yield from parameters(tool)


def parameters(tool: Tool) -> Iterator[str]:
    yield f"\n### {tool.name}\n\n{tool.about} *{EFFECTS[tool.effect]}*\n"
    yield "| parameter | type | description |\n|---|---|---|"
    for name, each in tool.parameters.items():
        needed = " (required)" if name in tool.required else ""
        yield f"| `{name}`{needed} | {kind(each.schema)} | {each.schema.get('description', '')} |"


def kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        said = ", ".join(f"`{value}`" for value in schema["enum"])
    elif schema["type"] == "array":
        said = "list of objects" if "properties" in schema["items"] else "list of strings"
    else:
        said = schema["type"]
    return said


def instructions() -> Iterator[str]:
    return (f"> {line}".rstrip() for line in INSTRUCTIONS.splitlines())


def resources() -> Iterator[str]:
    return (f"- `{each['uriTemplate']}`: {each['description']}" for each in TEMPLATES)


PARTS = {"clients": clients, "tools": tools, "instructions": instructions, "resources": resources}

if __name__ == "__main__":
    write(PAGE, PARTS)
