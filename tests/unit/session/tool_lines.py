"""Search results that are longer than a page."""

__all__ = ["LINES"]

LINES = "".join(f"src/file{number % 7}.py:{number}: return login(user, {number})\n" for number in range(4_000))
