"""Coding agents from npm, run without a terminal in a home folder of their own, with a scripted model.

A client is set up as a user does it, with `satchel mcp install`; beside that it only gets the address of the model
and the settings that keep it from asking questions and from calling home.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from clients.model_stub import Call, Model, Turn, serving
from mcp_pipe import LONGEST_WAIT, SATCHEL

__all__ = ["CLIENTS", "FILES", "ClaudeCode", "Codex", "CodingClient", "Npm", "Played"]

LONGEST_RUN = 240
FILES = "@modelcontextprotocol/server-filesystem"
PROMPT = "Please use your tools as you were told."
# Requests to anything but loopback go to a port where nobody listens.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")
NO_NETWORK = dict.fromkeys(PROXIES, "http://127.0.0.1:9") | dict.fromkeys(
    ("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"
)


class Npm(NamedTuple):
    """The installed packages, and the node that runs them."""

    packages: Path
    node: Path

    def script(self, path: str) -> list[str]:
        """The command that runs a file of a package."""
        return [str(self.node), str(self.packages / path)]

    def program(self, pattern: str) -> list[str]:
        """The command that runs a compiled program, which is in a package for this platform."""
        found = sorted(self.packages.glob(pattern))
        assert found, f"npm installed no {pattern}"
        return [str(found[0])]


class Played(NamedTuple):
    """How a run ended, and what the model was shown in it."""

    code: int
    output: str
    left: list[str]
    turn: Turn

    def finished(self, number_of_calls: int) -> None:
        """Check that all calls of the script were answered."""
        assert len(self.turn.results) == number_of_calls, f"exit {self.code}\n{self.turn.results}\n{self.output}"
        assert self.code == 0, self.output


class CodingClient:
    """One client in its home folder. Subclasses say how it is started and set up."""

    name: ClassVar[str]
    title: ClassVar[str]
    package: ClassVar[str]
    # What `satchel mcp install` needs beside the name.
    install_options: ClassVar[tuple[str, ...]] = ()
    # Whether `satchel mcp install --gateway` is used; the gateway then has its default limit.
    moves_servers: ClassVar[bool] = True
    # The limit of the gateway for one result.
    per_call: ClassVar[int] = 8_000
    # How it refuses a call without the argument `text` where that is required, if it checks that itself.
    own_refusal: ClassVar[str | None] = None
    # Whether it refuses arguments that do not match the schema.
    checks_arguments: ClassVar[bool] = False

    def __init__(self, npm: Npm, folder: Path, store: Path) -> None:
        self.npm = npm
        self.home = folder / self.name
        self.work = self.home / "work"
        self.work.mkdir(parents=True)
        self.store = store
        # Whether the model gets all definitions at the start, if the client would let it search for them.
        self.upfront = False

    def command(self, model: Model) -> list[str]:
        """The command for one prompt, without questions."""
        raise NotImplementedError

    def variables(self, model: Model) -> dict[str, str]:
        """The client's own environment variables."""
        return {}

    def set_up(self, model: Model) -> None:
        """Write the client's own settings, apart from the servers."""

    def add_server(self, name: str, command: Sequence[str]) -> None:
        """Write an MCP server to the client's configuration, as its documentation says."""
        raise NotImplementedError

    def parts(self, shown: str) -> list[str]:
        """The texts and the structured content in a result that the model is shown, without the client's words."""
        return [shown]

    def install(self, *options: str) -> None:
        """Run `satchel mcp install`."""
        command = [SATCHEL, "mcp", "install", self.name, *options]
        done = subprocess.run(
            command, cwd=self.work, env=self._environment(), capture_output=True, text=True, timeout=LONGEST_WAIT
        )
        assert done.returncode == 0, done.stderr

    def install_satchel(self) -> None:
        self.install("--db", str(self.store), *self.install_options)

    def install_gateway(self, name: str, command: Sequence[str]) -> None:
        """Put one MCP server behind the gateway."""
        if self.moves_servers:
            self.add_server(name, command)
            self.install("--gateway", "--db", str(self.store), *self.install_options)
        else:
            options = ["--db", str(self.store), "--per-call", str(self.per_call), "--name", name]
            self.add_server("satchel-gateway", [str(SATCHEL), "gateway", *options, "--", *command])

    def play(self, script: Sequence[Call]) -> Played:
        """Run the client with a model that plays the script, and wait until its MCP servers have ended."""
        with serving(list(script)) as model:
            self.set_up(model)
            environment = self._environment() | self.variables(model)
            code, output = self._run(self.command(model), environment)
            left = _ended(self.home)
        return Played(code, output, left, model.last if model.turns else Turn([], []))

    def _run(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        # To a file: a daemon of the client may keep a pipe open after the client has ended.
        with open(self.home / "output.txt", "w+") as output:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(LONGEST_RUN)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = -1
            output.seek(0)
            return code, f"$ {shlex.join(command)}\n{output.read()[-4000:]}"

    def _environment(self) -> dict[str, str]:
        path = f"{SATCHEL.parent}{os.pathsep}{self.npm.node.parent}{os.pathsep}{os.environ['PATH']}"
        ours = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1"}
        return ours | NO_NETWORK


def processes_of(home: Path) -> dict[int, str]:
    """The processes that have this home folder, by id, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return {number: line for number, line in found.items() if line}


def _ended(home: Path) -> list[str]:
    """Wait for the servers of a client that has ended; return those that did not, and end all that is left."""
    deadline = time.monotonic() + LONGEST_WAIT
    while (left := _servers(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    # Clients may leave daemons of their own.
    for number in processes_of(home):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return left


def _servers(home: Path) -> list[str]:
    """The command lines of Satchel, and of the server behind its gateway."""
    lines = processes_of(home).values()
    return [line for line in lines if FILES in line or "satchel" in {Path(word).name for word in line.split()}]


def _text_parts(content: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for part in content if part["type"] == "text"]


def _changed(path: Path, change: dict[str, Any]) -> None:
    """Merge keys into a JSON file, which may not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.loads(path.read_text()) if path.exists() else {}
    for key, value in change.items():
        content[key] = content.get(key, {}) | value if isinstance(value, dict) else value
    path.write_text(json.dumps(content, indent=2))


class ClaudeCode(CodingClient):
    name, title, package = "claude-code", "Claude Code", "@anthropic-ai/claude-code"

    def command(self, model: Model) -> list[str]:
        program = self.npm.program("@anthropic-ai/claude-code-*/claude")
        allowed = "mcp__satchel,mcp__satchel-gateway"
        return [*program, "-p", PROMPT, "--model", "claude-sonnet-4-5", "--allowedTools", allowed]

    def variables(self, model: Model) -> dict[str, str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
        model_api = {"ANTHROPIC_BASE_URL": model.address, "ANTHROPIC_API_KEY": "none"}
        upfront = {"ENABLE_TOOL_SEARCH": "false", "MCP_CONNECTION_NONBLOCKING": "false"} if self.upfront else {}
        return model_api | upfront | dict.fromkeys((*quiet, "DISABLE_ERROR_REPORTING"), "1")

    def add_server(self, name: str, command: Sequence[str]) -> None:
        _changed(self.home / ".claude.json", {"mcpServers": {name: {"command": command[0], "args": command[1:]}}})

    def parts(self, shown: str) -> list[str]:
        return [re.sub(r"\s*<system-reminder>.*?</system-reminder>\s*", "", shown, flags=re.DOTALL)]


class Codex(CodingClient):
    name, title, package = "codex", "Codex", "@openai/codex"
    # Otherwise `codex exec` does not wait for the server, and the model has no tools in the first turn.
    install_options = ("--required",)

    def command(self, model: Model) -> list[str]:
        program = [*self.npm.script("@openai/codex/bin/codex.js"), "exec"]
        settings = {
            # It offers the search to models that it knows.
            "model": "stub" if self.upfront else "gpt-5.5",
            "model_provider": "stub",
            "model_providers.stub.name": "stub",
            "model_providers.stub.base_url": f"{model.address}/v1",
            "model_providers.stub.wire_api": "responses",
            "model_providers.stub.env_key": "STUB_KEY",
            "model_providers.stub.supports_websockets": False,
            "check_for_update_on_startup": False,
            "analytics.enabled": False,
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={json.dumps(value)}")]
        free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [*program, *options, *free, PROMPT]

    def variables(self, model: Model) -> dict[str, str]:
        return {"STUB_KEY": "none"}

    def add_server(self, name: str, command: Sequence[str]) -> None:
        path = self.home / ".codex" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        with open(path, "a") as file:
            file.write(f"[mcp_servers.{name}]\ncommand = {json.dumps(command[0])}\n")
            file.write(f"args = {json.dumps(list(command[1:]))}\nrequired = true\n")

    def parts(self, shown: str) -> list[str]:
        return [re.sub(r"\AWall time: [\d.]+ seconds\nOutput:\n", "", shown)]


class GeminiCli(CodingClient):
    name, title, package = "gemini", "Gemini CLI", "@google/gemini-cli"
    own_refusal = "must have required property 'text'"
    checks_arguments = True

    def command(self, model: Model) -> list[str]:
        program = self.npm.script("@google/gemini-cli/bundle/gemini.js")
        return [*program, "-p", PROMPT, "--yolo", "--skip-trust", "-m", "gemini-2.5-flash"]

    def variables(self, model: Model) -> dict[str, str]:
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.address}

    def set_up(self, model: Model) -> None:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        _changed(self.home / ".gemini" / "settings.json", settings)

    def add_server(self, name: str, command: Sequence[str]) -> None:
        server = {name: {"command": command[0], "args": command[1:]}}
        _changed(self.home / ".gemini" / "settings.json", {"mcpServers": server})

    def parts(self, shown: str) -> list[str]:
        return [shown.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")]


class Opencode(CodingClient):
    name, title, package = "opencode", "opencode", "opencode-ai"

    def command(self, model: Model) -> list[str]:
        return [*self.npm.program("opencode-*/bin/opencode"), "run", PROMPT]

    def variables(self, model: Model) -> dict[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model.address}/v1", "apiKey": "none"},
            "models": {"stub": {"tool_call": True, "limit": {"context": 200_000, "output": 8_000}}},
        }
        settings = {
            "model": "stub/stub",
            "small_model": "stub/stub",
            "provider": {"stub": provider},
            "permission": "allow",
            "autoupdate": False,
            "share": "disabled",
        }
        quiet = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD")
        return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)} | dict.fromkeys(quiet, "1")

    def add_server(self, name: str, command: Sequence[str]) -> None:
        server = {name: {"type": "local", "command": list(command), "timeout": 30_000}}
        _changed(self.home / ".config" / "opencode" / "opencode.json", {"mcp": server})


class Cline(CodingClient):
    name, title, package = "cline", "Cline", "cline"
    # It cuts 8,000 characters out of longer results, from the start and the end.
    per_call = 1_500

    def command(self, model: Model) -> list[str]:
        return [*self.npm.script("cline/bin/cline"), PROMPT, "--json"]

    def set_up(self, model: Model) -> None:
        kind = "openai-compatible"
        settings = {"provider": kind, "apiKey": "none", "model": "stub", "baseUrl": f"{model.address}/v1"}
        provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        providers = {"version": 1, "lastUsedProvider": kind, "modes": {}, "providers": {kind: provider}}
        _changed(self._settings / "providers.json", providers)

    def add_server(self, name: str, command: Sequence[str]) -> None:
        server = {name: {"command": command[0], "args": command[1:], "timeout": 60}}
        _changed(self._settings / "cline_mcp_settings.json", {"mcpServers": server})

    def parts(self, shown: str) -> list[str]:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            result = json.loads(shown)
            structured = result.get("structuredContent")
            return [*_text_parts(result["content"]), *([json.dumps(structured)] if structured else [])]
        return [shown]

    @property
    def _settings(self) -> Path:
        return self.home / ".cline" / "data" / "settings"


class Continue(CodingClient):
    name, title, package = "continue", "Continue CLI", "@continuedev/cli"
    moves_servers = False
    own_refusal = 'Required parameter "text" missing'

    def command(self, model: Model) -> list[str]:
        return [*self.npm.script("@continuedev/cli/dist/cn.js"), "-p", PROMPT, "--auto"]

    def variables(self, model: Model) -> dict[str, str]:
        off = dict.fromkeys(("CONTINUE_TELEMETRY_ENABLED", "CONTINUE_METRICS_ENABLED"), "0")
        return off | {"OTEL_SDK_DISABLED": "true", "CONTINUE_CLI_AUTO_UPDATED": "1"}

    def set_up(self, model: Model) -> None:
        """The command line reads only config.yaml, so this names the files that the editor reads by itself."""
        servers = sorted((self.home / ".continue" / "mcpServers").glob("*.yaml"))
        names = "".join(f"  - uses: ./mcpServers/{path.name}\n" for path in servers)
        (self.home / ".continue" / "config.yaml").write_text(
            "name: stub\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: stub\n    provider: openai\n"
            f"    model: gpt-4.1\n    apiKey: none\n    apiBase: {model.address}/v1\n    roles: [chat]\n"
            f"    capabilities: [tool_use]\nmcpServers:\n{names}"
        )

    def add_server(self, name: str, command: Sequence[str]) -> None:
        path = self.home / ".continue" / "mcpServers" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        server = {"name": name, "type": "stdio", "command": command[0], "args": list(command[1:])}
        path.write_text(json.dumps({"name": name, "version": "1.0.0", "schema": "v1", "mcpServers": [server]}))

    def parts(self, shown: str) -> list[str]:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return _text_parts(json.loads(shown))
        return [shown]


CLIENTS: tuple[type[CodingClient], ...] = (ClaudeCode, Codex, GeminiCli, Opencode, Cline, Continue)
