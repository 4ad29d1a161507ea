"""The chaos run in short: real processes, a real PostgreSQL, both killed in the middle."""

from __future__ import annotations

from guard.chaos import run


def test_no_answer_changes_and_no_centroid_is_lost_while_everything_is_killed() -> None:
    told = run(6_000, clients=8, replicas=2, batch=16, pause=(0.5, 1.5), kills=3, restarts=1, kinds=500, fsync=False)
    assert told.problems == []
    assert told.queries >= 6_000
    assert told.database_restarts == 1
    assert told.replicas_killed >= 1
    assert told.centroids > 100
