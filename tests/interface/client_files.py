"""Configuration files as clients and their users write them."""

__all__ = ["BROKEN", "FILES", "SECRET"]

SECRET = "Zq7" * 12

CLAUDE_CODE = """\
{
  "numStartups": 184,
  "installMethod": "native",
  "tipsHistory": { "new-user-warmup": 3 },
  "projects": {
    "/home/ana/shop": {
      "allowedTools": [],
      "history": [{ "display": "fix the {\\"mcpServers\\": {}} bug // please", "pastedContents": {} }],
      "mcpServers": {},
      "hasTrustDialogAccepted": true
    }
  },
  "oauthAccount": { "emailAddress": "ana@example.test" },
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-github"
      ],
      "env": {
        "API_TOKEN": "SECRET"
      }
    }
  }
}
""".replace("SECRET", SECRET)

CLAUDE_DESKTOP = '{\r\n    "globalShortcut": "",\r\n    "mcpServers": {}\r\n}'

CURSOR = """\
{
\t// shared with the team
\t"mcpServers": {
\t\t"linear": { "url": "https://mcp.example.test/sse" }, // remote
\t},
}
"""

CODEX = """\
model = "gpt-5"  # do not change
notify = ["notify-send", "Codex"]

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]

# trusted
[projects."/home/ana/shop"]
trust_level = "trusted"
"""

VSCODE = """\
{
  // asked for once
  "inputs": [
    { "type": "promptString", "id": "key", "description": "API key", "password": true },
  ],
  "servers": {
    /* "old": {}, */
    "playwright": { "type": "stdio", "command": "npx", "args": ["@playwright/mcp"] }
  }
}
"""

GEMINI = '{"ui":{"theme":"GitHub"},"security":{"auth":{"selectedType":"oauth-personal"}}}'

FILES = {
    "claude-code": (".claude.json", CLAUDE_CODE),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP),
    "cursor": (".cursor/mcp.json", CURSOR),
    "codex": (".codex/config.toml", CODEX),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
    "gemini": (".gemini/settings.json", GEMINI),
}

BROKEN = {
    "claude-code": ('{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}\n', "line 4, column 5"),
    "claude-desktop": ('{"mcpServers": {"a": {"command": "x"}', "the file ends"),
    "cursor": ('{"mcpServers": [1, 2]}', '"mcpServers" must be an object'),
    "codex": ("[mcp_servers.a\ncommand = 1\n", "not TOML"),
    "vscode": ('{"servers": {}, /* "inputs": [] }', "the comment is not closed"),
    "gemini": ('{"mcpServers": {}, "ui": 1, "mcpServers": {}}', "twice"),
}
