"""The faults of `make soak` at a small size; here a few points and calls of each, there all or 20,000."""

import pytest
from fault_sweep import OPERATIONS
from soak import ON_A_DISK, SEED, script

from satchel.store.sqlite.store import CONNECTIONS

POINTS = 4
CALLS = 1_500


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_command_that_is_killed_at_any_point_loses_nothing_and_can_be_repeated(name):
    done = script("fault_sweep", "kill", name, POINTS)
    assert done["points"] > 10
    assert (done["tried"], done["in_the_middle"]) == (POINTS, POINTS)


@pytest.mark.parametrize("name", ON_A_DISK)
def test_a_command_on_a_disk_that_is_full_from_any_point_on_loses_nothing_and_can_be_repeated(name):
    done = script("fault_sweep", "full", name, POINTS)
    assert done["tried"] == POINTS
    assert done["in_the_middle"] > 0


def test_a_gateway_that_is_killed_at_any_write_has_kept_what_it_answered():
    done = script("gateway_sweep", 2 * POINTS)
    assert done["points"] > 50
    assert done["tried"] == 2 * POINTS
    # It may write its last entries together, and so end before the last point.
    assert done["in_the_middle"] >= done["tried"] - 1


def test_processes_that_are_killed_and_go_on_store_every_write_once():
    done = script("killed_crew", 8, 60, 30, SEED)
    assert (done["writes"], done["lost"]) == (480, 0)
    assert done["kills"] > 20


def test_older_processes_are_refused_after_an_upgrade_and_lose_nothing():
    done = script("upgrade_race", 2, 4, SEED)
    assert done["refused"] == 8
    assert done["acknowledged"] > 8
    assert (done["late"], done["lost"]) == (0, 0)


@pytest.mark.parametrize("server", ["mcp", "service", "gateway"])
def test_calls_to_one_process_open_no_more_and_more_files(server):
    """At this size caches still fill, so only a leak of several kilobytes per call would show in its memory.

    A file that each call, or each tenth, leaves open would show: the store's pool opens a few at most.
    """
    done = script("flat_calls", server, CALLS)
    first, last = done["files"]
    assert last <= first + 2 * CONNECTIONS
    assert done["growth"] < 8_000
