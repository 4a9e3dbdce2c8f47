"""An agent loop without a model: tool results are paged, stored, and shortened in batches.

It uses a store in a temporary folder.
"""

import tempfile
from pathlib import Path

import satchel


def search(pattern: str) -> str:
    """A tool that returns too much."""
    return "".join(f"src/auth/part_{n % 40}.py:{n}: {pattern}(user, attempt={n})\n" for n in range(4_000))


def read(path: str) -> str:
    return f"# {path}\n" + "".join(f"def step_{n}(user):\n    return user.id + {n}\n\n" for n in range(300))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, satchel.open(Path(folder, "demo.db")) as bag:
        session = bag.session("fix-login", budget=satchel.Budget(total=60_000))
        session.record("system", "You are a careful engineer.")
        session.record("user", "Why does the login fail?")

        session.call("search_content", {"pattern": "login"}, "call_1")
        shown = session.result("search_content", search("login"), call_id="call_1")
        print("A search returns 4,000 lines; the model gets this page:\n  …")
        print("  " + "\n  ".join(shown.text.splitlines()[-5:]))
        print("\nIt searches the stored result instead of paging through the rest:")
        print("  " + "\n  ".join(session.find(shown.handle, r"attempt=399\d").text.splitlines()[-3:]))

        for number in range(40):
            session.record("assistant", f"Now part {number}.")
            session.call("read_file", {"path": f"part_{number}.py"}, f"call_read_{number}")
            session.result("read_file", read(f"part_{number}.py"), call_id=f"call_read_{number}")
            if warning := session.warning():
                print(f"\nAfter {number + 1} files: {warning}")

        state = session.state()
        print(f"\nAfter forty files, {state.delivered:,} tokens were delivered and {state.remaining:,} are left:")
        for category, tokens in state.used.items():
            print(f"  {category:17} {tokens:>7,}")
        print("\nThe work log, in 600 tokens:")
        print("  " + "\n  ".join(line[:110] for line in session.history(max_tokens=600).text.splitlines()[-8:]))
        print("\nNothing is lost:", session.expand(shown.handle) == search("login"))


if __name__ == "__main__":
    main()
