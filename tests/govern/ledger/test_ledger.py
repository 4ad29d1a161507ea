"""The ledger: appends, replays and refusals, whole chains after kills and full disks, readers beside the writer."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from govern.ledger_runs import crossings, make_pass
from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer, canonical, is_signed
from modelkeep.govern.ledger import Entry, Ledger, LedgerReader, read_ledger
from modelkeep.govern.passes import Consent, Pass, Purpose

AGREEMENT = "a" * 64


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer.at(tmp_path / "key.pem")


@pytest.fixture
def ledger(tmp_path: Path, signer: Signer) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite3", "bob", signer) as opened:
        yield opened


def log(ledger: Ledger, number: int, purpose: Purpose = "train", rows: int = 4) -> Entry:
    of = make_pass(AGREEMENT, number, purpose, rows)
    consents = [Consent("carol", "", "c" * 128), Consent("bob", ledger.head(number - 2), "b" * 128)]
    return ledger.prepare(of, consents, *crossings(number, "bob"))


def require_whole(entries: Iterator[Entry], public_key: str) -> int:
    """The chain, checked the slow way: by the JSON of each line, with nothing of Entry's own."""
    previous, count = "", 0
    for count, entry in enumerate(entries, 1):
        body = json.loads(entry.line())
        signature = body.pop("signature")
        digest = sha256(canonical(body)).hexdigest()
        assert body["of"]["number"] == count - 1
        assert body["previous"] == previous
        assert is_signed(canonical({"entry": digest, "party": "bob"}), signature, public_key)
        previous = digest
    return count


def test_appends_a_signed_chain_with_the_consents_in_the_order_of_names(ledger: Ledger, signer: Signer) -> None:
    entries = [log(ledger, number) for number in range(5)]
    assert [consent.party for consent in entries[0].consents] == ["bob", "carol"]
    assert [entry.hash for entry in entries] == [ledger.head(number) for number in range(5)]
    assert ledger.head(-1) == ledger.head(-2) == ""
    assert list(ledger.entries()) == entries
    assert list(ledger.entries(3)) == entries[3:]
    assert ledger.entry(2) == entries[2]
    assert require_whole(ledger.entries(), signer.public_key) == ledger.length == 5
    assert entries[1].is_of("bob", signer.public_key)
    assert not entries[1].is_of("alice", signer.public_key)


def test_reads_many_entries_in_chunks(ledger: Ledger) -> None:
    for number in range(600):
        log(ledger, number)
    assert [entry.number for entry in ledger.entries(10)] == list(range(10, 600))


def test_goes_on_where_it_was_when_it_is_opened_again(tmp_path: Path, signer: Signer) -> None:
    path = tmp_path / "l.sqlite3"
    for start in (0, 3, 6):
        with Ledger(path, "bob", signer) as opened:
            assert (opened.length, opened.committed, len(opened.events())) == (start, max(0, start - 1), start // 3)
            for number in range(start, start + 3):
                log(opened, number)
            opened.commit(start + 1)
            opened.event("note", "three more")
    assert require_whole(read_ledger(path).entries(), signer.public_key) == 9


def test_a_replayed_pass_is_compared_and_not_appended_twice(ledger: Ledger) -> None:
    entries = [log(ledger, number) for number in range(4)]
    ledger.commit(2)
    assert [log(ledger, number) for number in range(4)] == entries
    assert ledger.length == 4
    assert ledger.passes() == 4
    with pytest.raises(GovernError, match=r"pass 1 .* is committed .* differently .*: the pass\."):
        log(ledger, 1, rows=5)
    with pytest.raises(GovernError, match="what was sent"):
        ledger.prepare(entries[2].of, entries[2].consents, [], entries[2].received)
    assert list(ledger.entries()) == entries


def test_an_uncommitted_pass_may_turn_out_differently(ledger: Ledger, signer: Signer) -> None:
    for number in range(4):
        log(ledger, number)
    ledger.commit(1)
    other = log(ledger, 2, "evaluate")  # what came after it goes too: it was chained to what is gone
    assert ledger.length == 3
    assert list(ledger.entries(2)) == [other]
    assert (ledger.passes("train"), ledger.passes("evaluate")) == (2, 1)
    assert ledger.head(2) == other.hash
    log(ledger, 3)
    assert require_whole(ledger.entries(), signer.public_key) == 4


def test_refuses_gaps_and_commits_of_what_is_not_there(ledger: Ledger) -> None:
    log(ledger, 0)
    with pytest.raises(GovernError, match="has 1 entries, so pass 2"):
        log(ledger, 2)
    with pytest.raises(GovernError, match="has 1 entries, so pass -1"):
        log(ledger, -1)
    with pytest.raises(GovernError, match="pass 1 cannot be committed"):
        ledger.commit(1)
    with pytest.raises(GovernError, match="no entry 7"):
        ledger.head(7)
    ledger.commit(0)
    ledger.commit(0)
    assert ledger.committed == 1


def test_counts_passes_by_purpose_and_asker_also_when_opened_again(tmp_path: Path, signer: Signer) -> None:
    path = tmp_path / "l.sqlite3"
    with Ledger(path, "bob", signer) as opened:
        for number, purpose in enumerate(("train", "train", "infer")):
            log(opened, number, purpose)  # type: ignore[arg-type]
        counted = [opened.passes(*asked) for asked in _QUESTIONS]
    with Ledger(path, "bob", signer) as again:
        assert counted == [again.passes(*asked) for asked in _QUESTIONS] == [3, 2, 1, 0, 3, 0, 2]


_QUESTIONS: list[tuple[str | None, str | None]] = [
    (None, None),
    ("train", None),
    ("infer", None),
    ("evaluate", None),
    (None, "alice"),
    (None, "bob"),
    ("train", "alice"),
]


def test_events_are_a_signed_chain_of_their_own(ledger: Ledger, signer: Signer) -> None:
    first = ledger.event("refused", "Not on Sundays.", number=3, asker="alice")
    second = ledger.event("withdrawn", "Enough.")
    assert ledger.events() == [first, second]
    assert (first.previous, second.previous) == ("", first.hash)
    assert first.values == {"number": 3, "asker": "alice"}
    assert abs(first.time - time.time()) < 60
    assert second.is_of("bob", signer.public_key)
    assert not replace(second, text="More.").is_of("bob", signer.public_key)
    assert ledger.length == 0


def test_no_times_in_entries_so_two_runs_have_the_same_ledgers(tmp_path: Path, signer: Signer) -> None:
    with Ledger(tmp_path / "a", "bob", signer) as one, Ledger(tmp_path / "b", "bob", signer) as two:
        assert [log(one, n) for n in range(3)] == [log(two, n) for n in range(3)]


def test_threads_share_a_ledger(ledger: Ledger, signer: Signer) -> None:
    numbers, turn = itertools.count(), threading.Lock()

    def work() -> None:
        for _ in range(40):
            with turn:
                log(ledger, next(numbers))
            ledger.event("note", "done")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert require_whole(ledger.entries(), signer.public_key) == 160
    assert [event.number for event in ledger.events()] == list(range(160))


def test_readers_read_while_the_party_writes(ledger: Ledger, signer: Signer) -> None:
    log(ledger, 0)
    reading = read_ledger(ledger.path)
    entries = reading.entries()
    assert next(entries).number == 0
    log(ledger, 1)
    ledger.commit(1)
    ledger.sync()
    assert list(entries) == []  # it reads what was there when it began
    assert [entry.number for entry in reading.entries(1)] == [1]
    again = read_ledger(ledger.path)
    assert (again.party, again.public_key, again.committed) == ("bob", signer.public_key, 2)
    ledger.event("note", "seen")
    assert [event.kind for event in reading.events()] == ["note"]


def test_an_exported_copy_reads_as_the_ledger_does(ledger: Ledger, tmp_path: Path) -> None:
    for number in range(3):
        log(ledger, number)
    ledger.commit(1)
    ledger.event("note", 'with "quotes", ε and a\nbreak', nested={"a": [1, {"b": None}]})
    copy = tmp_path / "copy.jsonl"
    ledger.export(copy)
    lines = [json.loads(line) for line in copy.read_text(encoding="utf-8").splitlines()]
    assert [list(line)[-1] for line in lines[1:]] == ["entry"] * 3 + ["event"]
    reading = read_ledger(copy)
    assert (reading.party, reading.committed) == ("bob", 2)
    assert list(reading.entries()) == list(ledger.entries())
    assert list(reading.entries(2)) == list(ledger.entries(2))
    assert list(reading.events()) == ledger.events()


def test_refuses_files_that_are_no_ledger_and_leaves_them_as_they_are(tmp_path: Path, signer: Signer) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("These are notes of mine, and they are no ledger. " * 30)
    database = tmp_path / "other.sqlite3"
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for path, reason in ((text, "file is not a database"), (database, "no ledger of passes")):
        before = path.read_bytes()
        with pytest.raises(GovernError, match=reason):
            Ledger(path, "bob", signer)
        with pytest.raises(GovernError, match=reason):
            read_ledger(path)
        assert path.read_bytes() == before
    with pytest.raises(GovernError, match="No such file"):
        read_ledger(tmp_path / "nothing")
    with pytest.raises(GovernError, match="cannot be used as a ledger"):
        Ledger(text / "below", "bob", signer)


def test_refuses_another_partys_ledger_another_key_and_another_format(
    ledger: Ledger, signer: Signer, tmp_path: Path
) -> None:
    log(ledger, 0)
    with pytest.raises(GovernError, match="is the ledger of 'bob', not of 'alice'"):
        Ledger(ledger.path, "alice", signer)
    with pytest.raises(GovernError, match="signed with another key"):
        Ledger(ledger.path, "bob", Signer.at(tmp_path / "other.pem"))
    with sqlite3.connect(ledger.path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(GovernError, match="format 7"):
        Ledger(ledger.path, "bob", signer)
    with pytest.raises(GovernError, match="format 7"):
        read_ledger(ledger.path)


def test_refuses_a_ledger_whose_end_was_changed(tmp_path: Path, signer: Signer) -> None:
    path = tmp_path / "l.sqlite3"
    with Ledger(path, "bob", signer) as opened:
        for number in range(3):
            log(opened, number)
    with sqlite3.connect(path) as database:
        database.execute("""UPDATE entries SET line = replace(line, '"rows":4', '"rows":5') WHERE number = 2""")
    database.close()
    with pytest.raises(GovernError, match=r"last entry .* is not as 'bob' signed it"):
        Ledger(path, "bob", signer)


def test_says_in_a_sentence_that_a_page_of_the_file_is_damaged(tmp_path: Path, signer: Signer) -> None:
    path = tmp_path / "l.sqlite3"
    with Ledger(path, "bob", signer) as opened:
        for number in range(60):
            log(opened, number)
    content = bytearray(path.read_bytes())
    content[12 * 4096 : 13 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(GovernError, match="cannot be"), Ledger(path, "bob", signer) as opened:
        list(opened.entries())
    with pytest.raises(GovernError, match="cannot be read"):
        list(read_ledger(path).entries())


def test_two_processes_that_write_at_once_are_found_out(tmp_path: Path, signer: Signer) -> None:
    with Ledger(tmp_path / "l", "bob", signer) as one, Ledger(tmp_path / "l", "bob", signer) as two:
        log(one, 0)
        with pytest.raises(GovernError, match="cannot be written: UNIQUE"):
            log(two, 0)
        assert log(one, 1).previous == one.head(0)


_APPENDER = """
import json, os, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from govern.ledger_runs import crossings, make_pass
from modelkeep.core.errors import GovernError
from modelkeep.govern.ledger import Ledger
from modelkeep.govern.passes import Consent
from modelkeep.core.signing import Signer

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())  # one write, so that two processes share no line

def append(folder, most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    ledger = Ledger(folder / "l.sqlite3", "bob", Signer.at(folder / "key.pem"))
    for number in range(ledger.length, 100_000):
        of = make_pass("a" * 64, number)
        ledger.prepare(of, [Consent("bob", ledger.head(number - 2), "b" * 128)], *crossings(number, "bob"))
        say(number)
        ledger.commit(number)
        ledger.event("note", "one more")
        if number % 50 == 0:
            ledger.sync()

for order in sys.stdin:  # each time a new process, without importing everything again
    process = os.fork()
    if process:
        say("ended", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        continue
    folder, most = json.loads(order)
    say("process", os.getpid())
    try:
        append(Path(folder), most)
    except GovernError as error:
        say("refused", error)
    os._exit(0)
os._exit(0)
"""


@pytest.fixture(scope="module")
def appender() -> Iterator[subprocess.Popen[str]]:
    """Starts a process that appends to a ledger whenever a line comes: the folder, and how large files may get."""
    command = [sys.executable, "-c", _APPENDER, str(Path(__file__).parents[2])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield child
        assert child.stdin is not None
        child.stdin.close()
    assert child.returncode == 0


def append(
    appender: subprocess.Popen[str], folder: Path, most: int = 1 << 30, until: int | None = None
) -> tuple[int, str]:
    """Let a process append, kill it a moment after it has said `until`; the last number it said, and its last word."""
    assert appender.stdin is not None
    assert appender.stdout is not None
    print(json.dumps([str(folder), most]), file=appender.stdin, flush=True)
    process, number, refused = 0, -1, ""
    for line in appender.stdout:
        word, _, rest = line.strip().partition(" ")
        if word == "process":
            process = int(rest)
        elif word == "refused":
            refused = rest
        elif word == "ended":
            assert int(rest) == (0 if until is None else -signal.SIGKILL)
            break
        else:
            number = int(word)
            if number == until:
                time.sleep(0.0007 * (number % 7))
                os.kill(process, signal.SIGKILL)
    return number, refused


def test_killed_while_it_appends_it_leaves_a_whole_chain(
    tmp_path: Path, signer: Signer, appender: subprocess.Popen[str]
) -> None:
    path, length = tmp_path / "l.sqlite3", 0
    for kills in range(1, 13):
        said, _ = append(appender, tmp_path, until=length + 11 + kills)
        # A reader needs nobody to mend the file first.
        assert require_whole(read_ledger(path).entries(), signer.public_key) > said
        with Ledger(path, "bob", signer) as again:
            assert require_whole(again.entries(), signer.public_key) == again.length
            assert again.length - again.committed in (0, 1)
            events = again.events()
            assert [event.number for event in events] == list(range(len(events)))
            assert all(later.previous == event.hash for event, later in itertools.pairwise(events))
            assert 0 <= again.committed - len(events) <= kills  # each kill may fall between a commit and its event
            length = again.length


def test_where_no_more_can_be_written_it_says_so_and_loses_nothing(
    tmp_path: Path, signer: Signer, appender: subprocess.Popen[str]
) -> None:
    said, refused = append(appender, tmp_path, most=150_000)
    assert "cannot be written" in refused
    assert "nothing was added" in refused
    with Ledger(tmp_path / "l.sqlite3", "bob", signer) as again:
        assert again.length == said + 1 > 5
        log(again, again.length)
        assert require_whole(again.entries(), signer.public_key) == again.length


def test_a_full_disk_loses_nothing_and_with_room_the_same_ledger_goes_on(tmp_path: Path, signer: Signer) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", disk], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with Ledger(disk / "l.sqlite3", "bob", signer) as full:
            with pytest.raises(GovernError, match=r"cannot be written: database or disk is full.*nothing was added"):
                list(map(partial(log, full), itertools.count()))
            length = full.length
            with pytest.raises(GovernError, match="cannot be written"):
                log(full, length)
            assert require_whole(full.entries(), signer.public_key) == length > 20
            subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
            for number in range(length, length + 20):
                log(full, number)
            full.sync()
            assert require_whole(full.entries(), signer.public_key) == length + 20
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_copy_in_a_folder_that_cannot_be_written_is_read(ledger: Ledger, tmp_path: Path) -> None:
    log(ledger, 0)
    ledger.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", disk], capture_output=True).returncode:
        pytest.skip("only root can mount a disk")
    try:
        copy = disk / "copy.sqlite3"
        copy.write_bytes(ledger.path.read_bytes())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        reading: LedgerReader = read_ledger(copy)
        assert [entry.number for entry in reading.entries()] == [0]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_what_is_read_back_is_what_was_logged(ledger: Ledger) -> None:
    of: Pass = make_pass(AGREEMENT, 0)
    entry = log(ledger, 0)
    assert (entry.of, entry.number) == (of, 0)
    assert next(ledger.entries()) == entry
    assert entry.hash == next(ledger.entries()).hash
