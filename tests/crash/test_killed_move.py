"""A migration that is killed repeatedly continues each time and ends with the correct result."""

import subprocess
import sys
from pathlib import Path

import satchel
from satchel.store.migrate import migrate

KILLS = 3


def test_a_killed_migration_goes_on_and_comes_to_the_same(path: Path, pg_rows_url: str, tmp_path: Path):
    with satchel.open(path) as bag:
        first, *others = bag.add_many([satchel.Draft(f"memory {number}", ref=str(number)) for number in range(60)])
        for other in others[:20]:
            bag.relate(first.id, other.id)
        for number in range(12):
            bag.session(f"work {number}").result("say", f"result {number}\n" * 500)
    back = tmp_path / "back.db"
    for seed, (source, target) in enumerate(((str(path), pg_rows_url), (pg_rows_url, str(back)))):
        mover = Path(__file__).with_name("mover.py")
        subprocess.run([sys.executable, mover, source, target, str(KILLS), str(seed)], check=True, timeout=60)
        done = migrate(source, target)
        assert done.same
        assert done.added + done.kept == 72
        assert done.kept > 0
    with satchel.open(path) as here, satchel.open(back) as there:
        assert [check.state for check in there.checks()] == ["ok"] * len(there.checks())
        assert list(there.export()) == list(here.export())
