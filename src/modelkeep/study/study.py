"""Study: many trials under one name, and `run`, which runs those that the ledger does not have yet."""

from __future__ import annotations

import shutil
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean
from typing import Annotated, Any, Protocol
from uuid import uuid4

from pydantic import BeforeValidator

from modelkeep.core import progress
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.results import Result, measured
from modelkeep.study.labels import labels
from modelkeep.study.ledger import Ledger
from modelkeep.study.local import Job, Limits, Local, Outcome, Pool
from modelkeep.study.progress_file import read_progress, remove_progress
from modelkeep.study.record import LEASE_SECONDS, Record, read_record
from modelkeep.study.trials import Trial

_LOOK_EVERY = 0.25


class Engine(Protocol):
    """What runs jobs: `Local` or `Ray`."""

    def start(self) -> AbstractContextManager[Pool]: ...


class Study:
    """Trials under a name by which the ledger, and `modelkeep study`, finds them again."""

    def __init__(self, name: str, trials: Sequence[Trial]) -> None:
        if not name.strip() or not name.isprintable():
            raise bad_parameter("Study", "name", "some printable text", name)
        if not trials:
            raise InputError(f"The study '{name}' needs at least one trial. Got none; is an axis of its grid empty?")
        twice = [t for t, n in Counter(t.identity for t in trials).items() if n > 1]
        if twice:
            label = next(t.label for t in trials if t.identity == twice[0])
            raise InputError(f"The trials of '{name}' must differ. Got {label} more than once.")
        self.name = name
        self.trials = tuple(trials)

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {len(self.trials)} trials)"

    @classmethod
    def recall(cls, ledger: Ledger, name: str) -> Study:
        """The study that the ledger remembers, with the names and versions that its trials have now.

        A trial whose version was raised since is another trial: it runs anew, and the old result stays.
        """
        return cls(name, [record.trial.now() for record in ledger.records(name)])


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult(Result, kind="study-result"):
    """How far a study is: one record per trial, in the study's order."""

    schema = 2
    older_schemas = (1,)  # by `read_record`

    study: str
    records: tuple[Annotated[Record, BeforeValidator(read_record)], ...]

    def values(self) -> list[Any]:
        """The values of the trials that are done, as JSON data, in the order of the trials."""
        return [record.value for record in self.records if record.state == "done"]

    @property
    def other_code(self) -> str:
        """How many results other code made, and which files changed since; empty where none did."""
        made = [record for record in self.records if record.changed_files]
        files = sorted({file for record in made for file in record.changed_files})
        return f"{len(made)} of {len(self.records)} trials; changed since: {', '.join(files)}" if made else ""

    def rows(self) -> list[tuple[str, str]]:
        counts = Counter(record.state for record in self.records)
        summary = ", ".join(f"{n} {state}" for state, n in counts.items())
        named = labels([record.trial for record in self.records])
        rows = [(self.study, summary), *([("made by other code", self.other_code)] if self.other_code else [])]
        for label, record in zip(named, self.records, strict=True):
            rows.append((label, record.brief + (" (other code)" if record.changed_files else "")))
        return rows


def run(
    study: Study,
    ledger: Ledger,
    engine: Engine | None = None,
    *,
    limits: Limits | None = None,
    retries: int = 1,
    again: bool = False,
) -> StudyResult:
    """Run the trials that have no result in the ledger, and record each the moment it ends.

    Where the code changed since a result was made, its record says so in `changed_files`. With `again` these trials run
    anew as well; an old result becomes history when the new one is there.

    A trial that fails, crashes or exceeds its limits is tried `retries` more times; then its error is kept and
    the study goes on. Another `run` of the same trials on the same ledger shares the work. Ctrl-C stops the
    workers and raises KeyboardInterrupt; what was finished is in the ledger.
    """
    if retries < 0:
        raise bad_parameter("run", "retries", "0 or more", retries)
    # Trials may have many seeds; the result of the study as a whole is named by the first.
    with measured(seed=study.trials[0].seed) as provenance:
        ledger.remember(study.name, study.trials)
        runner = _Runner(study, ledger, limits or Limits(), retries, again)
        if runner.queue:
            try:
                with (engine or Local()).start() as pool:
                    runner.run(pool)
            finally:
                runner.end()
        return StudyResult(study=study.name, records=tuple(ledger.records(study.name)), provenance=provenance())


@dataclass
class _Running:
    trial: Trial
    folder: str
    attempt: int
    shown: ExitStack
    task: progress.Task


class _Runner:
    """The one loop: claim a trial, hand it to the engine, wait, record what came of it."""

    def __init__(self, study: Study, ledger: Ledger, limits: Limits, retries: int, again: bool) -> None:
        self.study = study
        self.ledger = ledger
        self.limits = limits
        self.find_outdated = ledger.find_outdated(study.name) if again else {}
        self.emptied: set[str] = set()
        records = ledger.records(study.name)
        done = {r.identity: r.seconds for r in records if r.state == "done" and r.identity not in self.find_outdated}
        self.queue = deque(trial for trial in study.trials if trial.identity not in done)
        self.tries_left = Counter({trial.identity: 1 + retries for trial in self.queue})
        self.seconds = [seconds for seconds in done.values() if seconds is not None]
        self.labels = dict(zip((t.identity for t in study.trials), labels(study.trials), strict=True))
        self.failed = 0
        self.running: dict[Future[Outcome], _Running] = {}
        self.name = uuid4().hex

    def run(self, pool: Pool) -> None:
        with progress.task(self.study.name, total=len(self.study.trials)) as overall:
            overall.advance(len(self.study.trials) - len(self.queue))
            beat = time.monotonic()
            while self.queue or self.running:
                self.fill(pool, overall)
                if self.running:
                    wait(self.running, _LOOK_EVERY, FIRST_COMPLETED)
                else:
                    time.sleep(_LOOK_EVERY)  # all that is left is running somewhere else
                self.collect(overall)
                overall.advance(0, note=self.note(pool.slots))
                if time.monotonic() - beat > LEASE_SECONDS / 6:
                    beat = time.monotonic()
                    self.ledger.beat(self.name)

    def end(self) -> None:
        """After an interruption, when the workers are gone: record what has just ended and release the rest."""
        for future, running in self.running.items():
            running.shown.close()
            if future.done() and not future.cancelled() and future.exception() is None:
                outcome = future.result()
                if outcome.state == "done":
                    self.ledger.finish(running.attempt, outcome.text, outcome.seconds, outcome.code)
        self.ledger.release(self.name)

    def fill(self, pool: Pool, overall: progress.Task) -> None:
        for _ in range(len(self.queue)):
            if len(self.running) >= pool.slots:
                return
            trial = self.queue.popleft()
            attempt = self.ledger.claim(trial, self.name, self.find_outdated.get(trial.identity))
            if attempt == "done":
                overall.advance()
            elif attempt == "busy":
                self.queue.append(trial)
            else:
                shown = ExitStack()
                task = shown.enter_context(progress.task(self.labels[trial.identity], total=1))
                folder = str(self.ledger.workdir(trial))
                if trial.identity in self.find_outdated and trial.identity not in self.emptied:
                    # Else a training that other code finished there would be the result. Only once: a second attempt
                    # may go on from the first.
                    self.emptied.add(trial.identity)
                    shutil.rmtree(folder, ignore_errors=True)
                remove_progress(folder)
                running = _Running(trial, folder, attempt, shown, task)
                self.running[pool.submit(Job(trial, folder, self.limits))] = running

    def collect(self, overall: progress.Task) -> None:
        for future, running in list(self.running.items()):
            if not future.done():
                running.task.advance(0, note=read_progress(running.folder))
                continue
            error = future.exception()  # the engine's own, such as a machine of the cluster that is gone
            outcome = future.result() if error is None else Outcome("crashed", repr(error), 0.0)
            remove_progress(running.folder)
            self.record(running, outcome, overall)
            running.shown.close()
            del self.running[future]

    def record(self, running: _Running, outcome: Outcome, overall: progress.Task) -> None:
        identity, done = running.trial.identity, outcome.state == "done"
        self.tries_left[identity] -= 1
        if done and self.ledger.finish(running.attempt, outcome.text, outcome.seconds, outcome.code):
            self.seconds.append(outcome.seconds)
            running.task.advance(note="done")
            overall.advance()
            return
        if not done:
            self.ledger.fail(running.attempt, outcome.state, outcome.text, outcome.seconds)
            running.task.advance(0, note=outcome.state)
        if done or self.tries_left[identity] > 0:  # done: another run took the trial over, see what became of it
            self.queue.append(running.trial)
        else:
            self.failed += 1
            overall.advance()

    def note(self, slots: int) -> str:
        """How many failed, and the time left if the trials to come take as long as those before."""
        failed = f"{self.failed} failed, " if self.failed else ""
        if not self.seconds:
            return f"{failed}time left unknown"
        now = time.monotonic()
        left = fmean(self.seconds) * (len(self.queue) + len(self.running))
        left -= sum(now - running.task.started for running in self.running.values())
        return f"{failed}about {timedelta(seconds=max(0, round(left / slots)))} left"
