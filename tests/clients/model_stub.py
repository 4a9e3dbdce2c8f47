"""A stand-in for a model behind the APIs of Anthropic, OpenAI (both) and Google, on a loopback port.

It plays a script of tool calls and keeps what the model is shown: tool definitions and tool results.
The position in the script is the number of tool results in the request, so a repeated request gets the same answer.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Json = dict[str, Any]
END = "The script is finished."
SCRIPTED, SEARCH = "call_", "search"
# The tools of Claude Code and Codex that load the definitions of others.
SEARCH_TOOLS = ("ToolSearch", "tool_search")


class Call(NamedTuple):
    """A tool call of the script. The tool is found by the end of its name, because each client adds a prefix.

    `arguments` may be a function of what the model is shown, e.g. to take a cursor from the last result.
    """

    tool: str
    arguments: "Json | Callable[[Turn], Json]"


class OfferedTool(NamedTuple):
    """A tool as the client describes it to the model; some clients group tools in a namespace."""

    name: str
    description: str
    schema: Json
    namespace: str = ""


class Turn(NamedTuple):
    """One request to the model: what it is shown."""

    tools: list[OfferedTool]
    results: list[str]
    searches: int = 0
    everything: str = ""

    def tool(self, name: str) -> OfferedTool | None:
        found = [tool for tool in self.tools if tool.name == name or tool.name.endswith(f"_{name}")]
        return min(found, key=lambda tool: len(tool.name), default=None)


class Answer(NamedTuple):
    """What the model says next: text, or a call of an offered tool."""

    text: str = ""
    tool: OfferedTool | None = None
    arguments: Json | None = None
    call_id: str = ""


class Model:
    """The script, and the turns that were played."""

    def __init__(self, script: list[Call]) -> None:
        self.script = script
        self.turns: list[Turn] = []
        self.paths: list[str] = []
        self.address = ""
        self._lock = threading.Lock()

    @property
    def last(self) -> Turn:
        """The turn with the most results: what the model is shown at the end."""
        assert self.turns, f"the client never offered {self.script[0].tool}; it asked {self.paths}"
        return max(self.turns, key=lambda turn: len(turn.results))

    def answer(self, path: str, turn: Turn) -> Answer:
        """Return the next step. A request without the wanted tool is a side job of the client, such as a title."""
        with self._lock:
            self.paths.append(path)
            position = len(turn.results)
            if position >= len(self.script):
                self.turns.append(turn)
                return Answer(END)
            call = self.script[position]
            tool = turn.tool(call.tool)
            if tool is None:
                return self._search(turn)
            self.turns.append(turn)
        arguments = call.arguments(turn) if callable(call.arguments) else call.arguments
        return Answer(tool=tool, arguments=arguments, call_id=f"{SCRIPTED}{position}")

    def _search(self, turn: Turn) -> Answer:
        """Load deferred tools, as the client tells the model to do. This waits for servers that still connect."""
        search = next((tool for tool in turn.tools if tool.name in SEARCH_TOOLS), None)
        if search is None or turn.searches:
            return Answer("ok")
        query = " ".join(dict.fromkeys(call.tool for call in self.script))
        limits = {name: 50 for name in ("limit", "max_results") if name in search.schema["properties"]}
        return Answer(tool=search, arguments={"query": query, **limits}, call_id=SEARCH)


@contextlib.contextmanager
def serving(script: list[Call]) -> Iterator[Model]:
    """Serve a model that plays `script`, at `model.address`."""
    model = Model(script)
    handler = type("Handler", (_Handler,), {"model": model})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        model.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_GET(self) -> None:
        self._send(200, "application/json", json.dumps({"data": [], "models": [], "object": "list"}))

    def do_HEAD(self) -> None:
        self._send(200, "application/json", "")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        api = next((api for api in APIS if api.matches(path)), None)
        if path.endswith(("count_tokens", ":countTokens")):
            self._send(200, "application/json", json.dumps({"input_tokens": 1000, "totalTokens": 1000}))
        elif api is None:
            self._send(404, "application/json", json.dumps({"error": {"message": f"no {path} here"}}))
        else:
            body = json.loads(content)
            answer = self.model.answer(path, api.read(body)._replace(everything=content.decode()))
            if body.get("stream") or "stream" in path:
                self._send(200, "text/event-stream", "".join(api.stream(answer)))
            else:
                self._send(200, "application/json", json.dumps(api.whole(answer)))

    def _send(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


def event(data: Json, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def text_of(content: object) -> str:
    """The text of a message or a tool result, in any of the shapes that clients send."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(text_of, content))
    if isinstance(content, dict):
        if isinstance(text := content.get("text"), str):
            return text
        return json.dumps(content, ensure_ascii=False)
    return str(content)


class Anthropic:
    """POST /v1/messages."""

    USAGE: Json = {"input_tokens": 1000, "output_tokens": 10}  # noqa: RUF012

    @staticmethod
    def matches(path: str) -> bool:
        return path.endswith("/messages")

    @staticmethod
    def read(body: Json) -> Turn:
        tools = [
            OfferedTool(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
            for tool in body.get("tools", [])
        ]
        parts = [part for message in body["messages"] for part in _parts(message["content"])]
        shown = [part for part in parts if part["type"] == "tool_result"]
        results = [text_of(part.get("content")) for part in shown if part["tool_use_id"] != SEARCH]
        return Turn(tools, results, len(shown) - len(results))

    @classmethod
    def whole(cls, answer: Answer) -> Json:
        return cls._message([cls._block(answer)]) | {"stop_reason": cls._stop(answer)}

    @classmethod
    def stream(cls, answer: Answer) -> Iterator[str]:
        block = cls._block(answer)
        if answer.tool:
            empty: Json = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        else:
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": answer.text}
        for data in (
            {"type": "message_start", "message": cls._message([]) | {"stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": cls._stop(answer)}, "usage": cls.USAGE},
            {"type": "message_stop"},
        ):
            yield event(data, str(data["type"]))

    @staticmethod
    def _block(answer: Answer) -> Json:
        if answer.tool:
            call = {"id": answer.call_id, "name": answer.tool.name, "input": answer.arguments}
            return {"type": "tool_use"} | call
        return {"type": "text", "text": answer.text}

    @staticmethod
    def _stop(answer: Answer) -> str:
        return "tool_use" if answer.tool else "end_turn"

    @classmethod
    def _message(cls, content: list[Json]) -> Json:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": content}
        return message | {"stop_sequence": None, "usage": cls.USAGE}


class OpenAIResponses:
    """POST /v1/responses."""

    @staticmethod
    def matches(path: str) -> bool:
        return path.endswith("/responses")

    @classmethod
    def read(cls, body: Json) -> Turn:
        items = body["input"]
        searches = [item for item in items if item.get("type") == "tool_search_output"]
        listed = [*body.get("tools", []), *(tool for item in searches for tool in item["tools"])]
        tools = [offered for tool in listed for offered in cls._tools(tool)]
        results = [text_of(item["output"]) for item in items if item.get("type") == "function_call_output"]
        return Turn(tools, results, len(searches))

    @classmethod
    def _tools(cls, tool: Json) -> Iterator[OfferedTool]:
        if tool["type"] == "namespace":
            for inner in tool["tools"]:
                for offered in cls._tools(inner):
                    yield offered._replace(namespace=tool["name"])
        elif tool["type"] in ("function", "tool_search"):
            name = tool.get("name", tool["type"])
            yield OfferedTool(name, tool.get("description", ""), tool.get("parameters", {}))

    @classmethod
    def whole(cls, answer: Answer) -> Json:
        usage = {"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010}
        details: Json = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": None}
        return {
            "id": f"resp_{answer.call_id}",
            "object": "response",
            "status": "completed",
            "output": [cls._item(answer)],
            "usage": usage | details,
        }

    @classmethod
    def stream(cls, answer: Answer) -> Iterator[str]:
        whole, item = cls.whole(answer), cls._item(answer)
        for data in (
            {"type": "response.created", "response": whole | {"status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ):
            yield event(data, str(data["type"]))

    @staticmethod
    def _item(answer: Answer) -> Json:
        if answer.tool and answer.call_id == SEARCH:
            call = {"call_id": SEARCH, "execution": "client", "arguments": answer.arguments, "status": "completed"}
            return {"type": "tool_search_call"} | call
        if answer.tool:
            item = {
                "type": "function_call",
                "id": f"fc_{answer.call_id}",
                "call_id": answer.call_id,
                "name": answer.tool.name,
                "arguments": json.dumps(answer.arguments),
                "status": "completed",
            }
            return item | ({"namespace": answer.tool.namespace} if answer.tool.namespace else {})
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


class OpenAIChat:
    """POST /v1/chat/completions."""

    USAGE: Json = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}  # noqa: RUF012

    @staticmethod
    def matches(path: str) -> bool:
        return path.endswith("/chat/completions")

    @staticmethod
    def read(body: Json) -> Turn:
        functions = [tool["function"] for tool in body.get("tools", [])]
        tools = [
            OfferedTool(one["name"], one.get("description", ""), one.get("parameters", {})) for one in functions
        ]
        messages = body["messages"]
        results = [text_of(message["content"]) for message in messages if message["role"] == "tool"]
        return Turn(tools, results)

    @classmethod
    def whole(cls, answer: Answer) -> Json:
        message: Json = {"role": "assistant", "content": answer.text or None}
        if answer.tool:
            message["tool_calls"] = [cls._call(answer)]
        choice = {"message": message, "finish_reason": cls._finish(answer)}
        return cls._body("chat.completion", choice) | {"usage": cls.USAGE}

    @classmethod
    def stream(cls, answer: Answer) -> Iterator[str]:
        deltas: list[Json] = [{"role": "assistant", "content": answer.text}]
        if answer.tool:
            call = cls._call(answer)
            named = call | {"index": 0, "function": call["function"] | {"arguments": ""}}
            rest = {"index": 0, "function": {"arguments": call["function"]["arguments"]}}
            deltas += [{"tool_calls": [named]}, {"tool_calls": [rest]}]
        for delta in deltas:
            yield event(cls._body("chat.completion.chunk", {"delta": delta, "finish_reason": None}))
        yield event(cls._body("chat.completion.chunk", {"delta": {}, "finish_reason": cls._finish(answer)}))
        # The usage comes alone, as OpenAI sends it: Continue takes a chunk with usage for nothing else.
        yield event(cls._body("chat.completion.chunk") | {"usage": cls.USAGE})
        yield "data: [DONE]\n\n"

    @staticmethod
    def _body(kind: str, *choices: Json) -> Json:
        body = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "stub"}
        return body | {"choices": [choice | {"index": 0} for choice in choices]}

    @staticmethod
    def _finish(answer: Answer) -> str:
        return "tool_calls" if answer.tool else "stop"

    @staticmethod
    def _call(answer: Answer) -> Json:
        assert answer.tool
        function = {"name": answer.tool.name, "arguments": json.dumps(answer.arguments)}
        return {"id": answer.call_id, "type": "function", "function": function}


class Gemini:
    """POST /v1beta/models/NAME:generateContent and :streamGenerateContent."""

    @staticmethod
    def matches(path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    @staticmethod
    def read(body: Json) -> Turn:
        declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        tools = [
            OfferedTool(
                one["name"],
                one.get("description", ""),
                one.get("parametersJsonSchema") or one.get("parameters", {}),
            )
            for one in declared
        ]
        parts = [part for content in body["contents"] for part in content.get("parts", [])]
        answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        results = [text_of(answer.get("output", answer)) for answer in answers]
        return Turn(tools, results)

    @staticmethod
    def whole(answer: Answer) -> Json:
        if answer.tool:
            part: Json = {"functionCall": {"name": answer.tool.name, "args": answer.arguments}}
        else:
            part = {"text": answer.text}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 10, "totalTokenCount": 1010}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}

    @classmethod
    def stream(cls, answer: Answer) -> Iterator[str]:
        yield event(cls.whole(answer))


def _parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


APIS = (Anthropic, OpenAIResponses, OpenAIChat, Gemini)
