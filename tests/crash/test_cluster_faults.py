"""Faults of a Citus cluster: a node is killed, or the shard of an org moves while the org is written.

`SATCHEL_TEST_CITUS` names the cluster: see tests/citus_cluster.py. Its nodes must run on this machine.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import satchel
from citus_cluster import Cluster
from satchel import Satchel, StoreError
from satchel.store.locations import server_status

LONGEST_WAIT = 60.0


@pytest.fixture
def cluster(citus: Cluster) -> Iterator[Cluster]:
    yield citus
    citus.empty()


class Writer(threading.Thread):
    """Adds one memory after the other, and notes which were acknowledged and what was wrong with others."""

    def __init__(self, bag: Satchel) -> None:
        super().__init__(daemon=True)
        self._bag = bag
        self._ending = threading.Event()
        self._counted = threading.Condition()
        self.written: list[str] = []
        self.troubles: list[StoreError] = []

    def run(self) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            try:
                memory = self._bag.add(f"the number {number} of a long row", ref=f"r{number}")
            except StoreError as trouble:
                self.troubles.append(trouble)
            else:
                with self._counted:
                    self.written.append(memory.id)
                    self._counted.notify_all()

    def wait_for_more(self, count: int = 5) -> None:
        """Wait until so many more were acknowledged."""
        with self._counted:
            due = len(self.written) + count
            assert self._counted.wait_for(lambda: len(self.written) >= due, LONGEST_WAIT), self.troubles[-1:]

    def end(self) -> None:
        self._ending.set()
        self.join(LONGEST_WAIT)


@contextmanager
def writing(bag: Satchel) -> Iterator[Writer]:
    writer = Writer(bag)
    writer.start()
    try:
        yield writer
    finally:
        writer.end()


def held(bag: Satchel) -> set[str]:
    return {memory.id for memory in bag.recent(limit=10_000)}


def soon(attempt: Callable[[], object]) -> None:
    """Try again until it succeeds: a node that starts refuses connections for a moment."""
    give_up = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            attempt()
        except StoreError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


def test_a_killed_node_takes_only_its_own_tenants_with_it_and_loses_nothing(cluster: Cluster):
    ours, theirs = (cluster.org_on(node) for node in cluster.workers[:2])
    with satchel.open(cluster.url, embedder="none") as bag:
        here, there = bag.scoped(org=ours), bag.scoped(org=theirs)
        with writing(here) as unaffected, writing(there) as affected:
            affected.wait_for_more()
            unaffected.wait_for_more()
            with cluster.killed(cluster.workers[1]):
                unaffected.wait_for_more(20)
                assert here.context("a long row", token_budget=200).included
                with pytest.raises(StoreError) as told:
                    there.search("a long row")
                status = server_status(cluster.url)
            soon(lambda: there.add("written again after the restart"))
            affected.wait_for_more()
        assert unaffected.troubles == []
        assert affected.troubles
        assert set(unaffected.written) <= held(here)
        assert set(affected.written) <= held(there)
    host, port = cluster.workers[1]
    assert f"the node {host}:{port} of the cluster does not answer" in str(told.value)
    # The first may be a commit that the node did not confirm.
    assert all(re.search("does not answer|is not known", str(trouble)) for trouble in affected.troubles)
    assert {node.address for node in status.nodes if not node.answers} == {f"{host}:{port}"}
    assert all(node.answers for node in server_status(cluster.url).nodes)


def test_an_org_is_written_and_read_while_its_shard_moves_and_nothing_is_lost(cluster: Cluster):
    origin, target = cluster.workers[:2]
    org = cluster.org_on(origin)
    with satchel.open(cluster.url, embedder="none") as bag:
        view = bag.scoped(org=org)
        with writing(view) as writer:
            writer.wait_for_more()
            cluster.move(org, target)
            try:
                assert cluster.node_of(org) == target
                writer.wait_for_more()
                assert view.context("a long row", token_budget=200).included
            finally:
                cluster.move(org, origin)
            writer.wait_for_more()
        assert writer.troubles == []
        assert set(writer.written) == held(view)
        assert all(check.state == "ok" for check in view.checks())
