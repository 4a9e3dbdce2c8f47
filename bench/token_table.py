"""Write the table of the vocabulary o200k_base that counts the first texts of a process.

`python -m bench.token_table [FILE]` takes the tokens from splintr and writes the file into the package, or to FILE.
The same vocabulary gives the same bytes. `text/mapped_vocabulary.py` describes the format and
`token_data/NOTICE` the source.
"""

import sys
from pathlib import Path

from satchel.text.mapped_vocabulary import packed_vocabulary
from satchel.text.token_table import table_path

ORDINARY_TOKENS = 199_998


def tokens() -> list[bytes]:
    """Return the ordinary tokens of o200k_base in the order of their ranks."""
    from splintr import Tokenizer

    tokenizer = Tokenizer.from_pretrained("o200k_base")
    return [tokenizer.decode_token_bytes(rank) for rank in range(ORDINARY_TOKENS)]


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else table_path()
    data = packed_vocabulary(tokens())
    target.write_bytes(data)
    print(f"wrote {len(data):,} bytes to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
