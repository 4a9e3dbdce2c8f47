"""Characters that are not seen as text: removed or replaced for people and models, escaped in JSON."""

import json

from satchel.model.invisible import json_bytes, visible
from tables import each_row


@each_row(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("\x1b[31m", "\ufffd[31m"),
        ("\x9b31m", "\ufffd31m"),
        ("gnp\u202egpj.exe", "gnp\ufffdgpj.exe"),
        ("a\u2066b\u2069", "a\ufffdb\ufffd"),
        ("ig\u200bno\u2060re\ufeff", "ignore"),
        ("\U000e0041\U000e0042", "\ufffd\ufffd"),
        ("a\u200db", "ab"),
        ("\u200d\u200c\u200d", ""),
        ("é\u200d\u200c\u200dé", "é\u200dé"),
        ("\N{MAN}\u200d\N{WOMAN}", "\N{MAN}\u200d\N{WOMAN}"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("זיכרון\u200f!", "זיכרון\u200f!"),
    ],
)
def test_only_what_people_see_is_left(text: str, shown: str):
    assert visible(text) == shown
    assert visible(shown) == shown


def test_json_escapes_every_character_that_is_not_seen_and_gives_it_back():
    hidden = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x180E, *range(0x200B, 0x2010)]))
    hidden += "".join(map(chr, [*range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, *range(0xE0000, 0xE0080)]))
    encoded = json_bytes({hidden: [hidden, "é\ud800"]}) + json_bytes({hidden: [hidden, "é"]})
    assert set(encoded.decode()).isdisjoint(hidden)
    assert json.loads(json_bytes({hidden: [hidden, "é", '\\"']})) == {hidden: [hidden, "é", '\\"']}
