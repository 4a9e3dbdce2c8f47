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

OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  // only these
  "mcp": { "context7": { "type": "remote", "url": "https://mcp.example.test/mcp" }, },
}
"""

CLINE = (
    '{\n  "mcpServers": {\n    "fs": {"command": "npx", "args": [], "disabled": false, "autoApprove": []}\n  }\n}'
)

WINDSURF = '{\r\n\t"mcpServers": {\r\n\t\t"web": {"serverUrl": "https://mcp.example.test/mcp"}\r\n\t}\r\n}\r\n'

ZED = """\
// Zed settings
{
  "theme": { "mode": "system", "light": "One Light", "dark": "One Dark", },
  "buffer_font_size": 15, // larger
}
"""

FILES = {
    "claude-code": (".claude.json", CLAUDE_CODE),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP),
    "cursor": (".cursor/mcp.json", CURSOR),
    "codex": (".codex/config.toml", CODEX),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
    "gemini": (".gemini/settings.json", GEMINI),
    "opencode": (".config/opencode/opencode.json", OPENCODE),
    "cline": (".cline/data/settings/cline_mcp_settings.json", CLINE),
    "windsurf": (".codeium/windsurf/mcp_config.json", WINDSURF),
    "zed": (".config/zed/settings.json", ZED),
}

BROKEN = {
    "claude-code": ('{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}\n', "line 4, column 5"),
    "claude-desktop": ('{"mcpServers": {"a": {"command": "x"}', "the file ends"),
    "cursor": ('{"mcpServers": [1, 2]}', '"mcpServers" must be an object'),
    "codex": ("[mcp_servers.a\ncommand = 1\n", "not TOML"),
    "vscode": ('{"servers": {}, /* "inputs": [] }', "the comment is not closed"),
    "gemini": ('{"mcpServers": {}, "ui": 1, "mcpServers": {}}', "twice"),
    "opencode": ('{"mcp": {"a": {"type": "local",, }}}', "line 1, column 32"),
    "cline": ('{"mcpServers": {"a": {"command": \'x\'}}}', "strings must be in double quotes"),
    "windsurf": ('{"mcpServers": {"a": {}}\n{}', "line 2, column 1"),
    "zed": ('// only\n{"context_servers": "none"}', "line 2, column 21"),
}
