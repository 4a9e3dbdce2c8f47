"""Which MCP session is evicted when there are too many."""

from satchel.server.http.mcp_endpoint import RecentSessions


def test_the_one_that_has_rested_longest_is_ended_first():
    talks = RecentSessions()
    for name in "abc":
        talks.started(name)
    with talks.used("a"):
        pass
    assert talks.evict(4) is None
    assert [talks.evict(1) for _ in range(4)] == ["b", "c", "a", None]


def test_one_in_use_is_kept():
    talks = RecentSessions()
    talks.started("a")
    talks.started("b")
    with talks.used("a"), talks.used("a"), talks.used("b"):
        assert talks.evict(2) is None
    with talks.used("b"):
        assert talks.evict(2) == "a"


def test_a_name_that_was_never_begun_is_not_kept():
    talks = RecentSessions()
    with talks.used("made up"):
        pass
    assert talks.evict(0) is None
    assert not talks._in_use
