"""The consents' file: shared by processes and threads, killed, moved, busy, or something else."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from govern.asking import Party, a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError
from modelkeep.govern.consent import ConsentState, Policy
from processes import PATIENCE


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    party = Party(tmp_path)
    yield party
    party.close()


def test_another_process_withdraws_and_this_one_sees_it_at_once(bob: Party) -> None:
    decision = bob.by(Policy())
    decision.require_not_withdrawn(a_pass())
    code = (
        "import sys; from pathlib import Path; from modelkeep.govern.consent import ConsentState\n"
        "ConsentState(Path(sys.argv[1])).withdraw('from elsewhere')"
    )
    subprocess.run([sys.executable, "-c", code, bob.folder / "consent.sqlite3"], check=True, timeout=PATIENCE)
    with pytest.raises(ConsentRefused, match="from elsewhere"):
        decision.require_not_withdrawn(a_pass())
    bob.state.close()
    bob.state = ConsentState(bob.folder / "consent.sqlite3")  # as after a restart
    assert bob.state.withdrawal("infer") == "from elsewhere"


def test_a_killed_process_leaves_no_half_state(bob: Party) -> None:
    """Whoever is killed at any moment has withdrawn everything or restored everything."""
    code = (
        "import sys; from pathlib import Path; from modelkeep.govern.consent import ConsentState\n"
        "state = ConsentState(Path(sys.argv[1])); print(flush=True)\n"
        "while True: state.withdraw('x'); state.restore()"
    )
    for attempt in range(5):
        command = [sys.executable, "-c", code, str(bob.folder / "consent.sqlite3")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.01 + 0.0037 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = {bob.state.withdrawal(purpose) for purpose in ("train", "evaluate", "infer")}
        assert len(found) == 1
        changes = [change.kind for change in bob.state.changes()]
        assert (changes[-1:] == ["withdrawn"]) == (found == {"x"})
        bob.state.restore()


def test_a_process_killed_in_a_transaction_is_rolled_back(bob: Party) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from modelkeep.govern.consent import ConsentState\n"
        "state = ConsentState(Path(sys.argv[1]))\n"
        "with state._file.changing() as db:\n"
        "    db.execute('PRAGMA cache_size = 1'); db.execute('PRAGMA cache_spill = 1')\n"
        "    rows = [(str(i), 'x' * 500) for i in range(2000)]\n"  # so many that they are in the file before the end
        "    db.executemany('INSERT INTO withdrawn VALUES (?, ?)', rows)\n"
        "    db.execute(\"INSERT INTO withdrawn VALUES ('train', 'half')\")\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = bob.folder / "consent.sqlite3"
    before = path.stat().st_size
    assert subprocess.run([sys.executable, "-c", code, path], timeout=PATIENCE).returncode == -signal.SIGKILL
    assert path.stat().st_size > before  # the half state was there
    assert Path(f"{path}-journal").exists()
    assert bob.state.withdrawal("train") is None
    assert path.stat().st_size == before


def test_whoever_cannot_know_does_not_consent(bob: Party) -> None:
    decision = bob.by(Policy())
    path = bob.folder / "consent.sqlite3"
    path.rename(bob.folder / "moved")
    with pytest.raises(GovernError, match="moved, removed or replaced"):
        decision.require_not_withdrawn(a_pass())
    ConsentState(path).close()
    with pytest.raises(GovernError, match="moved, removed or replaced"):
        decision.require_not_withdrawn(a_pass())
    os.replace(bob.folder / "moved", path)
    decision.require_not_withdrawn(a_pass())


def test_a_busy_file_is_pending(bob: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelkeep.govern.consent.file.PATIENCE", 0.05)
    state = ConsentState(bob.folder / "consent.sqlite3")
    other = sqlite3.connect(bob.folder / "consent.sqlite3", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ConsentPending, match="cannot be used now"):
        state.withdrawal("train")
    other.execute("ROLLBACK")
    assert state.withdrawal("train") is None
    other.close()
    state.close()


def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no database, " * 100)
    with pytest.raises(GovernError, match="cannot be used"):
        ConsentState(tmp_path / "text")
    db = sqlite3.connect(tmp_path / "other")
    db.execute("CREATE TABLE mine (x)")
    db.close()
    before = (tmp_path / "other").read_bytes()
    with pytest.raises(GovernError, match="holds no consents"):
        ConsentState(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == before
    with pytest.raises(ConsentPending, match="cannot be used now"):
        ConsentState(tmp_path / "nowhere" / "consent.sqlite3")


def test_threads_and_a_writer_share_the_file(bob: Party) -> None:
    decision = bob.by(Policy())
    done = threading.Event()

    def change() -> None:
        other = ConsentState(bob.folder / "consent.sqlite3")
        for _ in range(10):
            other.withdraw("x")
            other.restore()
        other.close()
        done.set()

    def ask(_: int) -> int:
        asked = 0
        while not done.is_set():
            with suppress(ConsentRefused):
                decision.require_not_withdrawn(a_pass())
            asked += 1
        return asked

    with ThreadPoolExecutor(4) as threads:
        changing = threads.submit(change)
        asked = list(threads.map(ask, range(3)))
        changing.result()
    assert all(asked)
    decision.require_not_withdrawn(a_pass())
