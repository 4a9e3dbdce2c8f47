"""The digest of a file's content."""

from satchel.session.digests.digest import digest

PYTHON = (
    '"""Keys."""\n\nimport re\n\n\nclass Key(Base):\n    def rotate(self, *, at: int) -> None:\n        pass\n\n\n'
    "async def ask(service):\n    return await service\n"
)
MARKDOWN = "# Rotation\n\nKeys turn over.\n\n## Steps\n\n```\n# no heading\n```\n\n- one\n\n## After\n\nSleep.\n"


def test_code_becomes_path_lines_size_and_definitions():
    lines = digest(PYTHON, tool="read_file", arguments={"file_path": "src/key.py"}).split("\n")
    assert lines[0] == "src/key.py: 12 lines, 148 B"
    assert lines[1] == "Definitions: class Key, def rotate, async def ask"
    assert lines[2] == 'First: """Keys."""'


def test_markdown_becomes_its_headings():
    found = digest(MARKDOWN, arguments={"path": "docs/rotation.md"})
    assert found.startswith("docs/rotation.md: 15 lines, 85 B\nHeadings: # Rotation, ## Steps, ## After\n")


def test_a_configuration_becomes_its_sections():
    text = '[project]\nname = "kiln"\n\n[tool.keys]\nmost = 5\n# not a heading\n[[rule]]\nid = 1\nwhy = "x"\n'
    assert "Sections: [project], [tool.keys], [[rule]]" in digest(text)


def test_the_path_may_stand_in_the_first_line():
    assert digest("# src/app/key.py\n" + PYTHON).startswith("src/app/key.py: 13 lines")
    assert digest(PYTHON).startswith("File: 12 lines")


def test_numbers_before_the_lines_do_not_hide_definitions():
    numbered = "".join(f"{n:6}\t{line}\n" for n, line in enumerate(PYTHON.splitlines(), 1))
    assert "Definitions: class Key, def rotate, async def ask" in digest(numbered)


def test_definitions_of_many_languages_are_known():
    named = {
        "pub fn rotate": "(&self) -> u32 {",
        "pub(crate) struct Key": " {",
        "export default function ask": "() {",
        "interface Asker": " extends Base {",
        "export type Answer": " = string;",
        "#define MOST": " 5",
        "func (k *Key) Turn": "() error {",
        "public static class Store": "<T> {",
        "CREATE TABLE keys": " (",
        "enum Kind": ": A",
    }
    text = "".join(f"    {name}{rest}\n" for name, rest in named.items()) + "x = 1;\n}\n"
    found = digest(text, tool="read_file")
    assert [name for name in named if name not in found] == []
    assert "x = 1" not in found.split("First:")[0]


def test_the_size_is_that_of_the_bytes():
    assert digest("記憶\n" * 10, tool="read_file").startswith("File: 10 lines, 70 B")
    assert digest("words\n" * 10_000, tool="read_file").startswith("File: 10,000 lines, 60.0 KB")
    assert digest("記憶\n" * 100_000, tool="read_file").startswith("File: 100,000 lines, ~700.")


def test_a_long_file_names_some_definitions_from_all_over():
    text = "".join(f"def part_{n:05d}(a):\n    return a + {n}\n\n" for n in range(10_000))
    found = digest(text)
    assert found.startswith("File: 30,000 lines")
    assert "def part_00000" in found
    assert "+~" in found
