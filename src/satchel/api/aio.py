"""`satchel.aopen` and the async twins of `Satchel` and `Session`.

The code is in `api.asynchronous`, which derives the methods from those of the originals. Their types are in
`aio.pyi`, which `make docs` writes from the same signatures.
"""

from satchel.api.asynchronous import AsyncSatchel, AsyncSession, Opening, aopen

__all__ = ["AsyncSatchel", "AsyncSession", "Opening", "aopen"]
