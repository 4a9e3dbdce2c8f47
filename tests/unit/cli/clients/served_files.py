"""A configuration file with servers for each client, written as irregularly as the client allows."""

__all__ = ["SERVED", "in_every_form"]

CLAUDE_CODE = """\
{
  "numStartups": 184,
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "gh-mcp"
      ],
      "env": {
        "PASS": "${GH_PASS:-none}"
      }
    },
    "old": { "type": "sse", "url": "https://old.example.test/mcp" },
    "docs": { "type": "http", "url": "https://docs.example.test/mcp", "headers": { "X-Key": "quartz-otter" } }
  },
  "projects": { "/home/ana/shop": { "mcpServers": {} } }
}
"""

CLAUDE_DESKTOP = (
    '{\r\n    "mcpServers": {\r\n        "fs":   {"command": "npx", "args": ["fs", "/tmp"]},\r\n'
    '        "time": {\r\n            "command": "uvx"\r\n        }\r\n    }\r\n}'
)

CURSOR = """\
{
\t// shared with the team
\t"mcpServers": {
\t   "linear": { "url": "https://mcp.example.test/mcp" }, // remote
\t\t/* the next is slow */ "gh": {
\t\t\t"command": "npx", // not bunx
\t\t\t"args": ["-y", "gh",],
\t\t}
\t\t,
\t\t"here": { "command": "${workspaceFolder}/serve" },
\t},
}
"""

CODEX = """\
model = "gpt-5"  # do not change

# the first
[mcp_servers.context7]   # by hand
command = "npx"
args = [
  "-y", # yes
  "ctx",
]

# its variables
[mcp_servers.context7.env]
LEVEL = "debug"
# below

[projects."/home/ana/shop"]
trust_level = "trusted"
[mcp_servers."far away"]
url = "https://far.example.test/mcp"
bearer_token_env_var = "FAR_TOKEN"
startup_timeout_sec = 20"""

VSCODE = """\
{
  "inputs": [ { "type": "promptString", "id": "key", "password": true }, ],
  "servers": { /* "old": {}, */ "playwright": { "type": "stdio", "command": "npx" }, "asks":
    { "type": "http", "url": "https://a.example.test/mcp", "headers": { "K": "${input:key}" } },
      "web": {"type": "http", "url": "https://b.example.test/mcp"}
  }
}
"""

GEMINI = (
    '{"ui":{"theme":"GitHub"},"mcpServers":{"a":{"command":"x","trust":true},"b":{"httpUrl":"https://b.test"}}}'
)

OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "files": { "type": "local", "command": ["npx", "-y", "fs"], "environment": { "A": "1" } }, // mine
    "asks": { "type": "remote", "url": "https://a.example.test/mcp", "headers": { "K": "{env:KEY}" } },
    "web": { "type": "remote", "url": "https://b.example.test/mcp", "enabled": true, "timeout": 9000 },
  },
}
"""

CLINE = """\
{
  "mcpServers": {
    "fs": { "command": "npx", "args": ["fs"], "disabled": false, "autoApprove": [], "timeout": 60 },
    "nested": { "transport": { "type": "stdio", "command": "x" } },
    "web": { "type": "streamableHttp", "url": "https://b.example.test/mcp" }
  }
}
"""

WINDSURF = """\
{"mcpServers": {
    "fs": {"command": "npx", "args": ["fs"], "env": {"A": "${env:A}"}},
    "file": {"command": "x", "env": {"K": "${file:/etc/key}"}},
    "web": {"serverUrl": "https://b.example.test/mcp", "disabledTools": []}
}}"""

ZED = """\
// Zed settings
{
  "theme": "One Dark",
  "context_servers": {
    "ext": { "settings": {} },
    "fs": { "enabled": true, "command": "npx", "args": ["fs"], "env": {} },
    "web": { "url": "https://b.example.test/mcp" }
  }
}
"""

# The text, the names that are moved and those that stay.
SERVED = {
    "claude-code": (CLAUDE_CODE, ["github", "docs"], ["old"]),
    "claude-desktop": (CLAUDE_DESKTOP, ["fs", "time"], []),
    "cursor": (CURSOR, ["linear", "gh"], ["here"]),
    "codex": (CODEX, ["context7", "far away"], []),
    "vscode": (VSCODE, ["playwright", "web"], ["asks"]),
    "gemini": (GEMINI, ["a", "b"], []),
    "opencode": (OPENCODE, ["files", "web"], ["asks"]),
    "cline": (CLINE, ["fs", "web"], ["nested"]),
    "windsurf": (WINDSURF, ["fs", "web"], ["file"]),
    "zed": (ZED, ["fs", "web"], ["ext"]),
}


def in_every_form(text: str) -> list[bytes]:
    """A text with either line end, with and without a byte order mark and a last line end."""
    plain = text.replace("\r\n", "\n").rstrip("\n")
    texts = [form for ended in (plain, plain + "\n") for form in (ended, ended.replace("\n", "\r\n"))]
    return [text.encode(), *(form.encode() for form in texts), b"\xef\xbb\xbf" + text.encode()]
