"""Stores keep vectors that earlier versions made, so those of the same embedder must still fit them."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from satchel.embed.embedder import resolve_embedder

# The vectors were made when the table of `static` had int8, and are rounded to 8 bits.
EARLIER = json.loads(Path(__file__).with_name("earlier_vectors.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "least", "mean"),
    [("static:wordllama-l2-supercat-256", 0.99, 0.996), ("minilm-l6-v2-int8", 0.9995, 0.9998)],
)
def test_vectors_can_be_compared_with_those_that_stores_were_filled_with(name: str, least: float, mean: float):
    rows = np.array([np.frombuffer(base64.b64decode(row), np.int8) for row in EARLIER[name]], np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = (resolve_embedder(name).embed(EARLIER["texts"]) * rows).sum(axis=1)
    assert cosines.min() > least
    assert cosines.mean() > mean
