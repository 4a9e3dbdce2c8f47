"""The names under which a client sees the tools of several servers."""

import re

from satchel.server.gateway.fleet import LONGEST_NAME, exposed_names
from satchel.server.gateway.router import NAMES


def shown(*offers, reserved=()):
    return [each.shown for each in exposed_names(offers, reserved=reserved)]


def test_a_name_that_one_server_has_stays_as_it_is():
    assert shown(("fs", ["read", "write"]), ("git", ["log"])) == ["read", "write", "log"]


def test_a_name_that_several_have_gets_each_ones_server_in_front():
    assert shown(("fs", ["read", "write"]), ("git", ["read"])) == ["fs__read", "write", "git__read"]


def test_our_own_tools_keep_their_names():
    assert shown(("other", ["budget_status", "result"]), reserved=NAMES) == ["other__budget_status", "result"]


def test_a_prefixed_name_never_hides_a_name_that_is_there():
    names = shown(("a", ["x"]), ("b", ["x"]), ("c", ["a__x"]))
    assert names[2] == "a__x"
    assert len(set(names)) == 3


def test_servers_whose_names_differ_only_in_what_a_name_may_not_have_stay_apart():
    names = shown(("my server", ["x"]), ("my_server", ["x"]), ("my/server", ["x"]))
    assert len(set(names)) == 3
    assert names[0] == "my_server__x"
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)


def test_a_name_that_would_be_too_long_is_cut_and_told_apart_by_a_hash():
    long = "n" * 60
    names = shown(("server", [f"{long}1", f"{long}2"]), ("other", [f"{long}1", f"{long}2"]))
    assert len(set(names)) == 4
    assert {len(name) for name in names} == {LONGEST_NAME}
    assert names == shown(("server", [f"{long}1", f"{long}2"]), ("other", [f"{long}1", f"{long}2"]))


def test_a_server_that_lists_a_name_twice_has_it_once():
    assert shown(("fs", ["read", "read"])) == ["read"]


def test_a_dot_in_a_servers_name_does_not_get_into_those_of_its_tools():
    assert shown(("my.server", ["read"]), ("git", ["read"])) == ["my_server__read", "git__read"]
