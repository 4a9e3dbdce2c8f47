"""Tool outputs of every shape and any size, deterministic for a seed."""

import base64
import json
from collections.abc import Callable
from random import Random

__all__ = ["SHAPES", "output"]

_WORDS = ("login", "token", "session", "handler", "retry", "cache", "parse", "error", "user", "café", "naïve")
_LEVELS = ("INFO", "ERROR")
_LINES = (
    "📏 ~5 tokens; ~3k left",
    "➡ The rest: cursor=00000000.1.000000",
    "[Budget Alert: ~1k tokens remaining. Consider summarizing or completing soon.]",
    "error: cannot open /etc/app/config.toml: permission denied (13)",
)


def output(shape: str, size: int, seed: int) -> str | bytes:
    """Return an output of about `size` characters."""
    rng = Random(f"{shape} {size} {seed}")
    return SHAPES[shape](rng, size)


def _filled(line: Callable[[Random, int], str]) -> Callable[[Random, int], str]:
    def make(rng: Random, size: int) -> str:
        # A block of varied lines, repeated: where they can be cut matters more than their content.
        block = [line(rng, number) for number in range(min(400, 1 + size // 40))]
        text = "".join(block)
        if rng.random() < 0.5:
            text += rng.choice(_LINES) + "\n"
        return (text * (1 + size // max(1, len(text))))[: max(0, size)]

    return make


def _path(rng: Random) -> str:
    return "/".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 4))) + rng.choice((".py", ".md", ".tsx", ""))


def _record(rng: Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "path": _path(rng),
        "text": rng.choice(('a, "quoted" [bracket', "plain", "{brace}, comma", "日本語")),
        "tags": [rng.choice(_WORDS)] * rng.randint(0, 3),
        "nested": {"score": round(rng.random(), 4), "ok": rng.random() < 0.5},
    }


def _records(rng: Random, size: int) -> list[dict[str, object]]:
    some = [_record(rng, number) for number in range(min(300, 1 + size // 120))]
    one = max(1, len(json.dumps(some)))
    return some * max(1, size // one)


def _json_array(rng: Random, size: int) -> str:
    return json.dumps(_records(rng, size), ensure_ascii=False, separators=(",", ":"))


def _json_object(rng: Random, size: int) -> str:
    return json.dumps({"status": "ok", "files": _records(rng, size), "more": False})


def _json_pretty(rng: Random, size: int) -> str:
    return json.dumps(_records(rng, size), indent=2)


def _repeated(text: str) -> Callable[[Random, int], str]:
    return lambda rng, size: (text * (1 + size // len(text)))[:size]


def _base64(rng: Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(min(size, 60_000)) * (1 + size // 60_000)).decode()[:size]


SHAPES: dict[str, Callable[[Random, int], str | bytes]] = {
    "files": _filled(lambda rng, number: _path(rng) + "\n"),
    "matches": _filled(lambda rng, number: f"{_path(rng)}:{number}: {' '.join(rng.choices(_WORDS, k=6))}\n"),
    "source": _filled(lambda rng, number: f"def {rng.choice(_WORDS)}_{number}(x):\n    return x + {number}\n\n"),
    "diff": _filled(
        lambda rng, number: f"diff --git a/{(p := _path(rng))} b/{p}\n@@ -{number},3 +{number},4 @@\n a\n-b\n+c\n"
    ),
    "log": _filled(
        lambda rng, number: (
            f"2026-01-0{1 + number % 9} 10:00:{number % 60:02} {rng.choice(_LEVELS)} {rng.choice(_WORDS)}\n"
        )
    ),
    "status": _filled(lambda rng, number: f"{rng.choice((' M', '??', 'A '))} {_path(rng)}\n"),
    "json array": _json_array,
    "json object": _json_object,
    "json pretty": _json_pretty,
    "json lines": _filled(lambda rng, number: json.dumps(_record(rng, number)) + "\n"),
    "prose": _filled(lambda rng, number: " ".join(rng.choices(_WORDS, k=12)) + ". "),
    "crlf": _filled(lambda rng, number: f"{rng.choice(_WORDS)} {number}\r\n"),
    "one line": _repeated("word without an end "),
    "one word": _repeated("x"),
    "base64": _base64,
    "cjk": _repeated("記憶は予算の中に収まる。"),
    "families": _repeated("👩‍👩‍👧‍👦e\u0301"),
    "surrogates": _repeated("half a pair \ud800 and the other \udfff, then words\n"),
    "empty lines": _repeated("\n"),
    "bytes": lambda rng, size: rng.randbytes(min(size, 100_000)) * (1 + size // 100_000) + b"\xff",
}
