"""Token counts of non-text parts."""

import base64
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.session.media import part_tokens, wholly_text
from tables import each_row


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(50)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(50)


def jpeg(width: int, height: int, *, before: bytes = b"") -> bytes:
    frame = struct.pack(">BBHBHH", 0xFF, 0xC2, 17, 8, height, width)
    return b"\xff\xd8" + before + b"\xff" * 3 + b"\x01" + frame + bytes(50)


def segment(size: int) -> bytes:
    return struct.pack(">BBH", 0xFF, 0xE2, size) + bytes(size - 2)


def webp(form: bytes, body: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + form + bytes(4) + body + bytes(50)


def wav(seconds: int, *, rate: int = 16_000, stated: int | None = None) -> bytes:
    data = bytes(seconds * rate)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate // 2, rate, 2, 16)
    extra = struct.pack("<4sI", b"LIST", 3) + bytes(4)
    size = len(data) if stated is None else stated
    return b"RIFF" + bytes(4) + b"WAVE" + form + extra + struct.pack("<4sI", b"data", size) + data


def image(data: bytes | str) -> dict[str, Any]:
    return {"type": "image", "data": data if isinstance(data, str) else base64.b64encode(data).decode()}


def audio(data: bytes) -> dict[str, Any]:
    return {"type": "audio", "data": base64.b64encode(data).decode(), "mimeType": "audio/x"}


@pytest.mark.parametrize(
    "data",
    [
        png(300, 250),
        gif(300, 250),
        jpeg(300, 250),
        jpeg(300, 250, before=segment(65_535) * 3),
        webp(b"VP8 ", bytes(6) + struct.pack("<HH", 300, 250)),
        webp(b"VP8L", b"\x2f" + struct.pack("<I", 299 | 249 << 14)),
        webp(b"VP8X", bytes(4) + (299).to_bytes(3, "little") + (249).to_bytes(3, "little")),
    ],
    ids=["png", "gif", "jpeg", "jpeg with a profile", "webp", "webp lossless", "webp extended"],
)
def test_an_image_costs_its_pixels(data: bytes) -> None:
    assert part_tokens(image(data)) == 100


def test_a_large_image_costs_what_it_has_after_scaling() -> None:
    assert part_tokens(image(png(3136, 500))) == 523  # 1568 x 250
    assert part_tokens(image(png(4000, 3000))) == 1_600
    assert part_tokens(image(png(1, 1))) == 1


def test_base64_is_read_with_line_ends_and_as_a_data_address() -> None:
    text = base64.encodebytes(png(300, 250)).decode()
    assert part_tokens(image(text)) == 100
    assert part_tokens(image("data:image/png;base64," + base64.b64encode(png(300, 250)).decode())) == 100
    assert part_tokens(image(base64.urlsafe_b64encode(gif(300, 250)).decode())) == 100


@each_row(
    "data",
    [
        b"",
        b"not an image",
        png(0, 5),
        png(5, 5)[:20],
        gif(5, 5)[:8],
        b"\xff\xd8",
        b"\xff\xd8\xff",
        b"\xff\xd8" + segment(65_535) * 12 + b"\xff\xc0",
        webp(b"VP8?", b""),
        "!!!",
        "é",
        "A",
    ],
)
def test_an_image_that_cannot_be_read_costs_the_most(data: bytes | str) -> None:
    assert part_tokens(image(data)) == 1_600


def test_a_recording_costs_its_seconds() -> None:
    assert part_tokens(audio(wav(10))) == 320
    assert part_tokens(audio(wav(10, stated=0xFFFFFFFF))) == pytest.approx(320, abs=1)
    assert part_tokens(audio(wav(10, stated=0))) == pytest.approx(320, abs=1)


def test_other_audio_costs_its_bytes() -> None:
    assert part_tokens(audio(b"ID3" + bytes(79_997))) == pytest.approx(320, abs=1)


def test_a_link_costs_its_json() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    assert part_tokens(link) == 18  # 53 characters
    assert part_tokens(link, count=len) == 53


def test_an_embedded_resource_costs_by_what_it_holds() -> None:
    def tokens(**resource: Any) -> int:
        return part_tokens({"type": "resource", "resource": {"uri": "a:b", **resource}}, count=len)

    assert tokens(text="12345") == 8
    assert tokens(blob="QUJD" * 100) == 403
    assert tokens(blob=image(png(300, 250))["data"], mimeType="image/png") == 103
    assert tokens(blob=audio(wav(10))["data"], mimeType="audio/wav") == 323


def test_only_a_part_of_text_is_wholly_text() -> None:
    assert wholly_text({"type": "text", "text": "a", "annotations": {}})
    assert not wholly_text({"type": "text", "text": 5})
    assert not wholly_text({"type": "image", "text": "a"})
    assert not wholly_text("a")
    assert part_tokens({"type": "text", "text": "abcd"}) == 2


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["text", "image", "audio", "resource", "resource_link", "other", 5]),
    values=st.dictionaries(st.sampled_from(["data", "text", "resource", "uri", "blob", "mimeType"]), _ODD),
)
def test_whatever_is_in_a_part_there_is_a_number(kind: Any, values: dict[str, Any]) -> None:
    assert part_tokens({"type": kind, **values}) >= 0


@settings(max_examples=60, deadline=None)
@given(
    start=st.sampled_from([png(9, 9), gif(9, 9), jpeg(9, 9), webp(b"VP8X", b""), wav(0)]),
    cut=st.integers(0, 60),
    rest=st.binary(max_size=60),
)
def test_damaged_files_have_a_number_too(start: bytes, cut: int, rest: bytes) -> None:
    assert 0 < part_tokens(image(start[:cut] + rest)) <= 1_600
    assert part_tokens(audio(start[:cut] + rest)) >= 0


def test_what_cannot_be_written_as_json_has_a_number() -> None:
    circle: dict[str, Any] = {"type": "other"}
    circle["self"] = circle
    assert part_tokens(circle) > 0
    assert part_tokens("text") > 0  # type: ignore[arg-type]
    assert part_tokens({"type": "other", "value": object()}) > 0
