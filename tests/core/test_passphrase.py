"""Where a passphrase comes from, that it is not shown, and that no other program gets it."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from modelkeep.core.errors import InputError
from modelkeep.core.passphrase import Passphrase, choose_passphrase, find_passphrase
from processes import PATIENCE


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODELKEEP_PASSPHRASE", "MODELKEEP_PASSPHRASE_FILE", "MODELKEEP_NEW_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)


def at_terminal(lines: Sequence[str], work: Callable[[], Passphrase | None]) -> tuple[str, str]:
    """What the work returns at a terminal where a person answers each prompt, and all that the terminal shows."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover: it ends here
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - pytest has taken the old one
        try:
            found = work()
            said = "none" if found is None else found.secret[::-1]
        except BaseException as error:
            said = f"refused: {error}"
        os.write(1, f"<{said}>".encode())
        os._exit(0)
    shown, waiting = "", list(lines)
    while not shown.endswith(">") and select.select([terminal], [], [], PATIENCE)[0]:
        try:
            shown += os.read(terminal, 1000).decode()
        except OSError:
            break  # the child is gone
        if shown.endswith(": ") and waiting:  # what is typed before the prompt is thrown away
            os.write(terminal, waiting.pop(0).encode() + b"\n")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return shown[shown.index("<") + 1 : -1], shown[: shown.index("<")]


def test_a_person_types_it_without_seeing_it() -> None:
    said, shown = at_terminal(["correct horse"], lambda: find_passphrase("the key"))
    assert said == "esroh tcerroc"
    assert "Passphrase of the key: " in shown
    assert "horse" not in shown


def test_a_new_one_is_typed_twice() -> None:
    said, _ = at_terminal(["correct horse", "correct horse"], lambda: choose_passphrase("the key"))
    assert said == "esroh tcerroc"
    said, shown = at_terminal(["correct horse", "correct house"], lambda: choose_passphrase("the key"))
    assert said == "refused: The two passphrases differ. Nothing was changed."
    assert "hors" not in shown
    said, _ = at_terminal(["short"], lambda: choose_passphrase("the key"))
    assert said == "refused: A passphrase has 8 characters or more. This one is shorter."


def test_the_environment_goes_before_the_file_and_the_file_before_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_passphrase("the key") is None
    file = tmp_path / "secret"
    file.write_text("from the file\n")
    file.chmod(0o600)
    monkeypatch.setenv("MODELKEEP_PASSPHRASE_FILE", str(file))
    assert find_passphrase("the key").secret == "from the file"
    monkeypatch.setenv("MODELKEEP_PASSPHRASE", "from outside")
    assert find_passphrase("the key").secret == "from outside"
    assert choose_passphrase("the key", replaces=True) is None
    monkeypatch.setenv("MODELKEEP_NEW_PASSPHRASE", "another one")
    new = choose_passphrase("the key", replaces=True)
    assert new == Passphrase("another one")
    assert "another" not in f"{new!r} {new}"


def test_a_file_that_others_may_read_or_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("from the file")
    file.chmod(0o644)
    monkeypatch.setenv("MODELKEEP_PASSPHRASE_FILE", str(file))
    with pytest.raises(InputError, match="Others may read the passphrase in"):
        find_passphrase("the key")
    monkeypatch.setenv("MODELKEEP_PASSPHRASE_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="cannot be read as text"):
        find_passphrase("the key")
    file.chmod(0o600)
    file.write_bytes(b"\xff\xfe secret")
    monkeypatch.setenv("MODELKEEP_PASSPHRASE_FILE", str(file))
    with pytest.raises(InputError, match="cannot be read as text"):
        find_passphrase("the key")
