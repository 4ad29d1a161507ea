"""The demo: the clinic gets the model's answers, and the server's log has no value in it."""

from __future__ import annotations

import json

from cli.running import Run


def test_the_clinic_is_answered_and_the_server_saw_nothing(modelkeep: Run) -> None:
    ran = modelkeep("encrypt", "demo", "--questions", "2", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert len(told["answers"]) == 2
    assert told["largest_error"] < 1e-4
    assert len(told["server_saw"]) == 3
    assert all(line.startswith("session ") and "sha256" in line for line in told["server_saw"])
