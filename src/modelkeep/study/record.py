"""Record: what the ledger knows of one trial of a study."""

from __future__ import annotations

import json
import socket
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from modelkeep.study.names import TrialName, search
from modelkeep.study.trials import Trial

State = Literal["missing", "running", "done", "failed", "timeout", "memory", "crashed", "interrupted", "lost"]
"""The state of an attempt. `lost`: the process that ran it was killed; `missing`: a trial was never tried."""

LEASE_SECONDS = 60.0
"""An attempt whose runner gave no sign of life for this long is lost. On the same host a dead process is recognised at
once; this is for other hosts."""

FAILURES: tuple[State, ...] = ("failed", "timeout", "memory", "crashed")


@dataclass(frozen=True)
class Record:
    """The last attempt at a trial and, when it is done, its value.

    `changed_files` are those whose code changed since the value was made. A trial that is done and has an `error` was
    run again in vain: the value of before stays.
    """

    identity: str
    name: str
    version: int
    parameters: dict[str, Any]
    seed: int
    home: str
    state: State
    attempts: int
    seconds: float | None
    value: Any
    error: str | None
    changed_files: tuple[str, ...] = ()

    @property
    def trial(self) -> Trial:
        """The trial that this is the record of."""
        return Trial(self.name, self.version, self.parameters, self.seed, self.home)

    @property
    def brief(self) -> str:
        """The value, or how the trial failed, in one short line."""
        if self.state == "done":
            text = json.dumps(self.value, ensure_ascii=False)
        else:
            # A traceback says what happened in its last line; our own sentences say it in the first.
            lines = (self.error or "").strip().splitlines()
            text = ": ".join([self.state, *lines[:: -1 if self.state == "failed" else 1][:1]])
        return text if len(text) <= 60 else text[:59] + "…"


def name_of_before(function: str) -> tuple[TrialName, str]:
    """The name that a trial of format 1, known by its function's place at that time, has now; and its place now."""
    found = search(function, function)
    if found is None:
        return TrialName(function), function
    home, declared = found
    return TrialName(declared.name), home  # version 1: later versions make other results


def read_record(body: Any) -> Any:
    """A record's JSON; of one that was stored with schema 1, in the form of now."""
    if not isinstance(body, dict) or "function" not in body:
        return body
    rest = {key: value for key, value in body.items() if key not in ("function", "code", "identity")}
    own, home = name_of_before(body["function"])
    identity = Trial(own.name, own.version, body["parameters"], body["seed"], home).identity
    return {**rest, "identity": identity, "name": own.name, "version": own.version, "home": home}


def is_alive(attempt: sqlite3.Row, now: float) -> bool:
    """Whether the process that runs an attempt still lives, for all that is known here."""
    if now - attempt["heartbeat"] > LEASE_SECONDS:
        return False
    if attempt["host"] != socket.gethostname():
        return True
    import psutil

    try:
        runner = psutil.Process(attempt["pid"])
        # A process that began after the attempt only has the same number; 5 s, as clocks are not that exact.
        return runner.status() != psutil.STATUS_ZOMBIE and runner.create_time() < attempt["started"] + 5
    except psutil.NoSuchProcess:
        return False
