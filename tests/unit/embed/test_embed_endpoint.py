"""The endpoint embedder against a real local server that can misbehave."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from embedding_server import DIMENSIONS, Server, plain_environment, server, status, unit, vectors
from satchel.embed import endpoint
from satchel.embed.embedder import resolve_embedder
from satchel.errors import EmbedderError, InputError

# Fixtures, which the tests ask for by name.
__all__ = ["plain_environment", "server"]

pytestmark = pytest.mark.usefixtures("plain_environment")


def backwards(handler, asked):
    handler.answer({"data": vectors(asked)[::-1]})


def saying(body):
    return lambda handler, asked: handler.answer(body)


def data(change):
    return lambda handler, asked: handler.answer({"data": change(vectors(asked))})


def reset(handler, asked):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()


def cut_short(handler, asked):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')


def silent(handler, asked):
    handler.server.closing.wait(20)


def trickling(handler, asked):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        if handler.server.closing.wait(0.05):
            return


@pytest.fixture
def embedder(server):
    return resolve_embedder(f"openai:tiny@{server.base}", dimensions=DIMENSIONS)


def failure(embedder, texts=("hello",)):
    with pytest.raises(EmbedderError) as failed:
        embedder.embed(texts)
    message = str(failed.value)
    assert "\n" not in message
    return message


def test_texts_become_unit_rows_in_their_order(server, embedder):
    texts = ["one", "two", "naïve 👩", "one"]
    rows = embedder.embed(texts)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [unit(text) for text in texts], atol=1e-6)
    [(path, headers, asked)] = server.seen
    assert path == "/v1/embeddings"
    assert asked == {"model": "tiny", "input": texts, "encoding_format": "float"}
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers


def test_answers_out_of_order_are_put_in_order(server, embedder):
    server.for_ever = backwards
    np.testing.assert_allclose(embedder.embed(["one", "two", "three"])[0], unit("one"), atol=1e-6)


def test_many_texts_go_in_batches(server, embedder):
    texts = [f"text {number}" for number in range(300)]
    rows = embedder.embed(texts)
    assert [len(asked["input"]) for _, _, asked in server.seen] == [128, 128, 44]
    np.testing.assert_allclose(rows, [unit(text) for text in texts], atol=1e-6)


def test_blank_texts_are_not_sent_and_are_rows_of_zeros(server, embedder):
    rows = embedder.embed(["", "one", " \n"])
    assert [asked["input"] for _, _, asked in server.seen] == [["one"]]
    assert [bool(row.any()) for row in rows] == [False, True, False]
    assert embedder.embed([]).shape == embedder.embed([""])[:0].shape == (0, DIMENSIONS)
    assert len(server.seen) == 1


def test_halves_of_surrogate_pairs_can_be_sent(server, embedder):
    embedder.embed(["a \ud83d b"])
    assert server.seen[0][2]["input"] == ["a \ufffd b"]


def test_the_dimensions_are_asked_for_once_when_they_are_not_given(server):
    unasked = resolve_embedder(f"openai:tiny@{server.base}")
    assert server.seen == []
    assert unasked.dimensions == DIMENSIONS
    assert unasked.embed(["one"]).shape == (1, DIMENSIONS)
    assert unasked.dimensions == DIMENSIONS
    assert len(server.seen) == 2


def test_threads_can_share_an_embedder(embedder):
    with ThreadPoolExecutor(8) as pool:
        for number, rows in enumerate(pool.map(lambda n: embedder.embed([f"text {n}"]), range(40))):
            np.testing.assert_allclose(rows[0], unit(f"text {number}"), atol=1e-6)


@pytest.mark.parametrize("passing", [status(429), status(500), status(503), reset, cut_short])
def test_a_failure_that_passes_is_tried_again(server, embedder, passing):
    server.misbehave = [passing, passing]
    np.testing.assert_allclose(embedder.embed(["one"])[0], unit("one"), atol=1e-6)
    assert len(server.seen) == 3


def test_the_wait_a_server_asks_for_is_kept_within_bounds(server, embedder, monkeypatch):
    pauses = []
    monkeypatch.setattr(endpoint.time, "sleep", pauses.append)
    server.misbehave = [status(429, Retry_After="2"), status(429, Retry_After="3600")]
    embedder.embed(["one"])
    assert pauses == [2, 5]
    server.misbehave = [status(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT")]
    embedder.embed(["one"])
    assert pauses[2:] == [0.01]


def test_a_failure_that_stays_is_given_up_with_the_words_of_the_server(server, embedder):
    server.for_ever = status(500, "out of memory\nand a long trace")
    message = failure(embedder)
    assert message == f"{server.base}/embeddings answered 500: out of memory"
    assert len(server.seen) == 3


def test_a_connection_that_is_always_broken_off_is_given_up(server, embedder):
    server.for_ever = reset
    assert "closed the connection" in failure(embedder)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": "model not found"}, "model not found"),
        ({"error": {"message": "model not found"}}, "model not found"),
        ({"detail": "model not found"}, "model not found"),
        ({"message": "model not found"}, "model not found"),
        (b"\n  model not found  \n<html>", "model not found"),
        (b"", "Not Found"),
        (b"\xff\xfe", "\ufffd"),
        (b'{"error": null}', "{'error': None}"),
    ],
)
def test_a_refusal_is_not_tried_again_and_says_what_the_server_said(server, embedder, body, words):
    server.for_ever = lambda handler, asked: handler.answer(body, 404)
    message = failure(embedder)
    assert message.startswith(f"{server.base}/embeddings answered 404: ")
    assert words in message
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("misbehaviour", "complaint"),
    [
        (saying(b'{"data": [{"index": 0, "embed'), "did not answer with embeddings"),
        (saying(b"<html>hello</html>"), "did not answer with embeddings"),
        (saying(b""), "did not answer with embeddings"),
        (saying(b"\xff"), "did not answer with embeddings"),
        (saying({"object": "list"}), "did not answer with embeddings"),
        (saying({"data": [{"index": 0, "embedding": "AAAA"}]}), "did not answer with embeddings"),
        (saying(b'{"data": [{"index": 0, "embedding": [NaN]}]}'), "did not answer with embeddings"),
        (data(lambda rows: rows[:-1]), "returned 1 vectors for 2 texts"),
        (data(lambda rows: [*rows, rows[0]]), "returned 3 vectors for 2 texts"),
        (data(lambda rows: [rows[0], rows[0]]), "indexes are not 0 to 1"),
        (data(lambda rows: [rows[0], {"index": 1, "embedding": [1.0]}]), "a vector of 1 numbers, expected 16"),
        (data(lambda rows: [{"index": i, "embedding": [1e300] * 16} for i in (0, 1)]), "not finite"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error_that_says_why(server, embedder, misbehaviour, complaint):
    server.for_ever = misbehaviour
    message = failure(embedder, ["one", "two"])
    assert complaint in message
    assert server.base in message
    assert len(server.seen) == 1


def test_a_vector_without_numbers_is_no_vector(server):
    server.for_ever = data(lambda rows: [{"index": 0, "embedding": []}])
    with pytest.raises(EmbedderError, match="an empty vector"):
        _ = resolve_embedder(f"openai:tiny@{server.base}").dimensions


def test_another_number_of_dimensions_than_the_store_recorded_is_refused(server):
    recorded = resolve_embedder(f"openai:tiny@{server.base}", dimensions=3)
    assert "16 numbers, expected 3" in failure(recorded)


@pytest.mark.parametrize("slow", [silent, trickling])
def test_a_server_that_takes_too_long_is_given_up(server, embedder, monkeypatch, slow):
    monkeypatch.setenv("SATCHEL_EMBED_TIMEOUT", "0.2")
    server.for_ever = slow
    message = failure(embedder)
    assert "did not answer within 0.2 s" in message
    assert "SATCHEL_EMBED_TIMEOUT" in message
    assert len(server.seen) == 1


def test_an_answer_without_end_is_given_up(server, embedder, monkeypatch):
    monkeypatch.setattr(endpoint, "_MOST_BYTES", 1 << 20)
    server.for_ever = saying(b" " * (2 << 20))
    assert "longer than 1 MiB" in failure(embedder)


@pytest.mark.parametrize("timeout", ["soon", "0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none_is_refused(embedder, monkeypatch, timeout):
    monkeypatch.setenv("SATCHEL_EMBED_TIMEOUT", timeout)
    with pytest.raises(InputError, match="SATCHEL_EMBED_TIMEOUT"):
        embedder.embed(["one"])


def test_a_server_that_is_not_there_is_an_error_with_its_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    message = failure(resolve_embedder(f"openai:tiny@http://127.0.0.1:{port}/v1", dimensions=3))
    assert f"request to http://127.0.0.1:{port}/v1/embeddings failed" in message


def test_a_server_that_speaks_no_http_is_an_error_with_its_address(server, embedder):
    server.for_ever = lambda handler, asked: handler.wfile.write(b"hello\r\n\r\n")
    assert f"{server.base}/embeddings" in failure(embedder)


def test_a_proxy_of_the_environment_is_used_unless_the_host_is_excepted(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.base.removeprefix("http://").removesuffix("/v1"))
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    resolve_embedder(f"openai:tiny@{server.base}", dimensions=DIMENSIONS).embed(["one"])
    resolve_embedder("openai:tiny@http://far.invalid/v1", dimensions=DIMENSIONS).embed(["one"])
    assert [path for path, _, _ in server.seen] == ["/v1/embeddings", "http://far.invalid/v1/embeddings"]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_so_that_no_key_goes_elsewhere(server, embedder, monkeypatch, code):
    monkeypatch.setenv("SATCHEL_EMBED_API_KEY", "sk-hunter2")
    with Server() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.for_ever = status(code, Location=f"{other.base}/embeddings")
        assert "redirects are not followed" in failure(embedder)
        other.shutdown()
        thread.join(10)
        assert other.seen == []


def authorization(server):
    return server.seen[-1][1].get("Authorization")


def test_satchels_own_key_goes_first(server, embedder, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    embedder.embed(["one"])
    assert authorization(server) == "Bearer sk-openai"
    monkeypatch.setenv("SATCHEL_EMBED_API_KEY", "sk-satchel")
    embedder.embed(["one"])
    assert authorization(server) == "Bearer sk-satchel"


def test_openais_key_is_not_sent_to_an_address_that_only_the_spec_names(server, embedder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    embedder.embed(["one"])
    assert authorization(server) is None


def test_a_refusal_for_want_of_a_key_says_where_it_is_looked_for(server, embedder):
    server.for_ever = status(401, "no key")
    assert failure(embedder).endswith("answered 401: no key; no key was sent, set SATCHEL_EMBED_API_KEY")


def test_the_key_is_in_no_message_and_no_name(server, embedder, monkeypatch):
    monkeypatch.setenv("SATCHEL_EMBED_API_KEY", "sk-hunter2")
    server.for_ever = status(401, "wrong key sk-hunter2 given")
    message = failure(embedder)
    assert "wrong key … given" in message
    assert "hunter2" not in message + embedder.name + repr(embedder)


@pytest.mark.parametrize("key", ["sk-hun\nter2", "sk-hünter2"])
def test_a_key_that_cannot_be_a_header_is_refused_and_not_shown(server, embedder, monkeypatch, key):
    monkeypatch.setenv("SATCHEL_EMBED_API_KEY", key)
    with pytest.raises(InputError, match="an HTTP header cannot contain") as refused:
        embedder.embed(["one"])
    assert "ter2" not in str(refused.value)
    assert server.seen == []
