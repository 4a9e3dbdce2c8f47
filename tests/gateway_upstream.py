"""An MCP server to run behind a gateway; it can answer a lot, answer garbage, hang or crash.

python gateway_upstream.py [--mute] [--page N] [--only TOOL,TOOL] [--resource URI] [--answer-after FILE]
"""

import argparse
import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["RECORDS", "sample"]

Message = dict[str, Any]

PIXEL = base64.b64encode(b"\x89PNG not really a picture").decode()
RECORD = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id", "name"],
    "additionalProperties": False,
}
RECORDS = {
    "type": "object",
    "properties": {"records": {"type": "array", "items": {"$ref": "#/$defs/Record"}}},
    "required": ["records"],
    "additionalProperties": False,
    "$defs": {"Record": RECORD},
}


def sample(shape: str, size: int) -> str:
    """Return deterministic text of a shape, of about `size` bytes."""
    pieces: list[str] = []
    length = number = 0
    make = _SHAPES[shape]
    while length < size:
        pieces.append(make(number))
        length += len(pieces[-1].encode())
        number += 1
    return f"[{','.join(pieces)}]" if shape == "json" else "".join(pieces)


_SHAPES: dict[str, Callable[[int], str]] = {
    "lines": lambda n: f"src/part_{n % 7}/module_{n}.py:{n * 3 % 400}: def handler_{n}(request): ...\n",
    "json": lambda n: json.dumps({"id": n, "name": f"record {n}", "ok": n % 3 == 0, "tags": ["a", "b"]}),
    "log": lambda n: (
        f"2026-01-{n % 28 + 1:02} 10:00:{n % 60:02} {'ERROR' if n % 50 == 0 else 'INFO'} step {n} done\n"
    ),
    "unbroken": lambda n: "abcdefghij0123456789"[n % 20] * (n % 5 + 1),
    "emoji": lambda n: f"👩‍👩‍👧 día {n} — 漢字かな\n",
}


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._asked: dict[int, threading.Event] = {}
        self._replies: dict[int, Any] = {}
        self._held: dict[str, list[tuple[Any, str]]] = {}
        self.cancelled: list[Any] = []
        self.grown = 0
        self.level = None

    def write(self, line: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self._replies[message["id"]] = message.get("result", message.get("error"))
                self._asked[message["id"]].set()
            elif "id" not in message:
                if message["method"] == "notifications/cancelled":
                    self.cancelled.append(message["params"]["requestId"])
            else:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()

    def answer(self, message: Message) -> None:
        method, params, number = message["method"], message.get("params") or {}, message["id"]
        if method == "tools/call":
            result = self.call(number, params)
        elif (handler := getattr(self, "on_" + method.replace("/", "_"), None)) is not None:
            result = handler(params)
        else:
            self.send(id=number, error={"code": -32601, "message": f"no {method}"})
            return
        if result is not None:
            self.send(id=number, result=result)

    def on_initialize(self, params: Message) -> Message | None:
        if self.options.mute:
            return None
        if self.options.answer_after:
            while not self.options.answer_after.exists():
                time.sleep(0.01)
        self.client = params
        changes = {"listChanged": True}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {
                "tools": changes,
                "prompts": changes,
                "resources": {"subscribe": True, **changes},
                "logging": {},
                "completions": {},
            },
            "serverInfo": {"name": "upstream", "version": "1"},
            "instructions": "Ask me anything.",
        }

    def on_ping(self, params: Message) -> Message:
        return {}

    def on_tools_list(self, params: Message) -> Message:
        only = self.options.only
        tools = [tool for tool in TOOLS if only is None or tool["name"] in only]
        tools += [{"name": f"grown_{n}", "inputSchema": {"type": "object"}} for n in range(self.grown)]
        start = int(params.get("cursor") or 0)
        end = start + self.options.page
        more = {"nextCursor": str(end)} if end < len(tools) else {}
        return {"tools": tools[start:end], **more}

    def on_prompts_list(self, params: Message) -> Message:
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}

    def on_prompts_get(self, params: Message) -> Message:
        text = f"Greet {params['arguments']['who']} from {self.options.name}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def on_resources_list(self, params: Message) -> Message:
        return {"resources": [{"uri": self.options.resource, "name": "one"}]}

    def on_resources_templates_list(self, params: Message) -> Message:
        return {"resourceTemplates": [{"uriTemplate": f"{self.options.name}://item/{{id}}", "name": "item"}]}

    def on_resources_read(self, params: Message) -> Message:
        text = f"{params['uri']} by {self.options.name}"
        return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": text}]}

    def on_resources_subscribe(self, params: Message) -> Message:
        self.send(method="notifications/resources/updated", params={"uri": params["uri"]})
        return {}

    def on_resources_unsubscribe(self, params: Message) -> Message:
        return {}

    def on_completion_complete(self, params: Message) -> Message:
        return {"completion": {"values": [f"{params['argument']['value']}-{self.options.name}"]}}

    def on_logging_setLevel(self, params: Message) -> Message:  # noqa: N802
        self.send(method="notifications/message", params={"level": params["level"], "data": self.options.name})
        return {}

    def call(self, number: Any, params: Message) -> Message | None:
        self.params = params
        return getattr(self, "tool_" + params["name"].split("_")[0])(number, params.get("arguments") or {})

    def tool_echo(self, number: Any, arguments: Message) -> Message:
        return said(str(arguments.get("text", "")))

    def tool_whoami(self, number: Any, arguments: Message) -> Message:
        return said(f"{self.options.name} {os.getpid()}")

    def tool_bulk(self, number: Any, arguments: Message) -> Message:
        return said(sample(arguments["shape"], arguments["size"]))

    def tool_parts(self, number: Any, arguments: Message) -> Message:
        """Texts with an image and a resource between them, and `_meta`."""
        text = sample("lines", arguments.get("size", 50))
        content = [
            {"type": "text", "text": text},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "test://in", "text": "inside a resource"}},
            {"type": "resource_link", "uri": "test://link", "name": "link"},
        ]
        return {"content": content, "_meta": {"kept": True}}

    def tool_together(self, number: Any, arguments: Message) -> None:
        """Answer only after this many calls have arrived, the last first."""
        with self._lock:
            held = self._held.setdefault(arguments["key"], [])
            held.append((number, arguments["text"]))
            ready = list(held) if len(held) == arguments["number"] else []
        for number, text in reversed(ready):
            self.send(id=number, result=said(text))

    def tool_steps(self, number: Any, arguments: Message) -> Message:
        token = self.params["_meta"]["progressToken"]
        for step in range(1, arguments["number"] + 1):
            self.send(
                method="notifications/progress",
                params={"progressToken": token, "progress": step, "total": arguments["number"]},
            )
        return said("done")

    def tool_hang(self, number: Any, arguments: Message) -> None:
        """Never answer, and say so if requested."""
        if path := arguments.get("touch"):
            Path(path).touch()

    def tool_cancelled(self, number: Any, arguments: Message) -> Message:
        return said(str(len(self.cancelled)))

    def tool_crash(self, number: Any, arguments: Message) -> None:
        os._exit(arguments.get("code", 3))

    def tool_grow(self, number: Any, arguments: Message) -> Message:
        self.grown += 1
        self.send(method="notifications/tools/list_changed")
        return said("grown")

    def tool_grown(self, number: Any, arguments: Message) -> Message:
        return said("fresh")

    def tool_fail(self, number: Any, arguments: Message) -> Message:
        return said(sample("lines", arguments.get("size", 20))) | {"isError": True}

    def tool_refuse(self, number: Any, arguments: Message) -> None:
        message = sample("unbroken", arguments.get("size", 10))
        self.send(id=number, error={"code": -32099, "message": message, "data": {"why": "told to"}})

    def tool_records(self, number: Any, arguments: Message) -> Message:
        """Structured content, also as text; with `apart` only structured."""
        data = {"records": [{"id": n, "name": f"record {n}"} for n in range(arguments["number"])]}
        text = "see the structured content" if arguments.get("apart") else json.dumps(data)
        return said(text) | {"structuredContent": data}

    def tool_loose(self, number: Any, arguments: Message) -> Message:
        """Structured content without an output schema."""
        return self.tool_records(number, arguments)

    def tool_twice(self, number: Any, arguments: Message) -> Message:
        """A text, and structured content that repeats it, as the server for files does."""
        text = sample(arguments["shape"], arguments["size"])
        return said(text) | {"structuredContent": {"content": text}}

    def tool_strict(self, number: Any, arguments: Message) -> Message:
        """Return the arguments; its schema allows only one."""
        return said(json.dumps(arguments))

    def tool_garbled(self, number: Any, arguments: Message) -> Message | None:
        answer = {
            "utf8": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff\xfe"}]}}' % number,
            "last": b'{"result":{"content":[{"type":"text","text":"\xff"}]},"jsonrpc":"2.0","id":%d}' % number,
            "json": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[' % number,
            "half": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}' % number,
            "shape": b'{"jsonrpc":"2.0","id":%d,"result":{"content":"text"}}' % number,
            "noise": b"\x00\x01 Starting up...",
        }[arguments["how"]]
        self.write(answer)
        return said("after noise") if arguments["how"] == "noise" else None

    def tool_roots(self, number: Any, arguments: Message) -> Message:
        """Return what the client answers to a request."""
        own = len(self._asked) + 1
        self._asked[own] = threading.Event()
        self.send(id=own, method="roots/list")
        assert self._asked[own].wait(30)
        return said(json.dumps(self._replies[own]))

    def tool_remark(self, number: Any, arguments: Message) -> Message:
        print(arguments["text"], file=sys.stderr, flush=True)
        return said("remarked")

    def tool_environment(self, number: Any, arguments: Message) -> Message:
        return said(
            json.dumps({name: os.environ.get(name) for name in arguments["names"]} | {"cwd": str(Path.cwd())})
        )


def said(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def _tool(name: str, **more: Any) -> Mapping[str, Any]:
    return {"name": name, "description": f"Test: {name}.", "inputSchema": {"type": "object"}, **more}


TOOLS = [
    *(
        _tool(name.removeprefix("tool_"))
        for name in vars(Server)
        if name.startswith("tool_") and name != "tool_grown"
    ),
]
_MORE = {
    "records": {"outputSchema": RECORDS},
    "twice": {"outputSchema": {"type": "object", "properties": {"content": {"type": "string"}}}},
    "strict": {
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
    },
}
TOOLS = [{**each, **_MORE.get(each["name"], {})} for each in TOOLS]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="test")
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--page", type=int, default=5)
    parser.add_argument("--only", type=lambda names: names.split(","))
    parser.add_argument("--resource", default="test://one")
    parser.add_argument("--answer-after", type=Path)
    Server(parser.parse_args()).serve()


if __name__ == "__main__":
    main()
