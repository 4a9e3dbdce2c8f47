"""The diff of --dry-run: the change, two lines of context, and no secrets."""

from satchel.cli.clients.config_file import difference
from satchel.text.redact import redact


def shown(before: str, after: str) -> str:
    return difference(before, after, path="mcp.json", mask=lambda text: redact(text).text)


def test_a_change_is_shown_with_two_lines_around_it():
    lines = [f"line {number}" for number in range(9)]
    before = "\n".join(lines) + "\n"
    after = before.replace("line 4\n", "line 4,\nnew\n")
    assert shown(before, after) == (
        "--- mcp.json\n+++ mcp.json\n@@ -3,5 +3,6 @@\n line 2\n line 3\n-line 4\n+line 4,\n+new\n line 5\n line 6\n"
    )


def test_a_new_file_and_an_end_that_grows_are_shown():
    assert shown("", "{\n}\n") == "--- /dev/null\n+++ mcp.json\n@@ -0,0 +1,2 @@\n+{\n+}\n"
    assert shown("a\r\nb\r\n", "a\r\nb\r\nc\r\n") == "--- mcp.json\n+++ mcp.json\n@@ -1,2 +1,3 @@\n a\n b\n+c\n"


def test_secrets_around_the_change_are_masked_and_those_further_off_not_shown():
    far, near = "far-" + "s3cret-8812", "near-" + "s3cret-9913"
    before = f'"A_PASSWORD": "{far}",\n1\n2\n"B_PASSWORD": "{near}",\n3\n4\n'
    text = shown(before, before.replace("\n3\n", "\n3,\nnew\n"))
    assert near not in text
    assert '"B_PASSWORD": "[masked:password]"' in text
    assert "A_PASSWORD" not in text


def test_of_one_line_of_megabytes_only_the_change_is_shown():
    secret = "s3cret-8812" * 20
    head = '{"mcpServers":{"a":{"env":{"secret_token":"' + secret + '"}}'
    tail = '}, "history":"' + "x y " * 500_000 + '"}'
    text = shown(head + tail, head + ',"satchel":{"command":"/opt/satchel"}' + tail)
    assert "+…" in text
    assert ',"satchel":{"command":"/opt/satchel"}}, "history":"x y' in text
    assert "s3cret" not in text
    assert len(text) < 700


def test_a_secret_in_a_long_line_is_masked_before_the_line_is_cut():
    secret = "ghp_" + "Ab3x" * 9
    line = '"x": "' + "y" * 50 + f" {secret} " + "z" * 900
    text = shown(f"{line}\nb\n", f"{line}\nc\n")
    assert "Ab3x" not in text
    assert text.splitlines()[3].startswith(' "x": "yyy')
    assert len(text) < 300
