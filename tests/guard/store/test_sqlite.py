"""What can happen to a file: a full disk, no permission, damage. It is noticed, said, and never an answer."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from modelkeep.core.errors import GuardError, StoreUnavailable
from modelkeep.guard.store import Principal, open_store, sqlite_file
from modelkeep.guard.store.sqlite import SqliteStore

ROW = np.arange(100, dtype=np.int32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with five centroids and an answer."""
    path = tmp_path / "guard.db"
    with closing(SqliteStore(path)) as store:
        for position in range(5):
            store.append("e", 0, position, ROW + position)
        store.remember("e", {b"q": ROW})
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE centroids SET position = 9 WHERE position = 4",
        "DELETE FROM centroids WHERE position = 4",
        "INSERT OR REPLACE INTO centroids SELECT epoch, label, 0, units, seal FROM centroids WHERE position = 4",
        "INSERT INTO centroids SELECT epoch, label, 9, units, seal FROM centroids WHERE position = 4",
        "UPDATE answers SET units = x'00'",
        "DELETE FROM answers",
        "UPDATE epochs SET classes = 3",
    ],
)
def test_the_database_refuses_to_forget(path: Path, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append"):
        change(path, statement)


def test_an_answer_cannot_be_replaced(path: Path) -> None:
    change(path, "INSERT OR REPLACE INTO answers SELECT epoch, query, x'00', x'00' FROM answers")
    with closing(SqliteStore(path)) as store:
        np.testing.assert_array_equal(store.recall("e", [b"q"])[b"q"], ROW)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        pytest.param("UPDATE centroids SET units = zeroblob(400) WHERE position = 2", "e, 0, 2", id="changed"),
        pytest.param("UPDATE centroids SET units = x'01' WHERE position = 2", "1 bytes; 100 classes", id="cut"),
        pytest.param("DELETE FROM centroids WHERE position = 2", "no centroid at position 2", id="gone"),
        pytest.param("UPDATE centroids SET label = 1 - label", "e, 1, 0", id="moved"),
        pytest.param("UPDATE epochs SET classes = 50", "e, 0, 0", id="classes"),
    ],
)
def test_a_damaged_row_is_never_an_answer(path: Path, statement: str, said: str) -> None:
    triggers = ("centroids_update", "centroids_delete", "epochs_update")
    change(path, *(f"DROP TRIGGER {name}" for name in triggers), statement)
    with closing(SqliteStore(path)) as store, pytest.raises(GuardError, match=f"damaged.*{said}") as told:
        np.concatenate([store.centroids("e", label, 0) for label in range(2)])
    assert not isinstance(told.value, StoreUnavailable)


def test_a_damaged_answer_is_no_answer(path: Path) -> None:
    change(path, "DROP TRIGGER answers_update", "UPDATE answers SET query = x'00'")
    with closing(SqliteStore(path)) as store, pytest.raises(GuardError, match="damaged"):
        store.recall("e", [b"\x00"])


def test_a_flipped_byte_of_the_file_is_noticed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.find((ROW + 3).tobytes()) + 40] ^= 1
    path.write_bytes(content)
    with closing(SqliteStore(path)) as store, pytest.raises(GuardError, match="damaged"):
        store.centroids("e", 0, 0)


@pytest.mark.parametrize("kept", [0, 50, 4096, 9000])
def test_a_truncated_file_is_no_store(path: Path, kept: int) -> None:
    os.truncate(path, kept)
    with pytest.raises(GuardError, match=r"truncated|damaged"), closing(SqliteStore(path)) as store:
        store.centroids("e", 0, 0)
    assert path.stat().st_size == kept  # and it was left for somebody to look at


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("Dear all, " * 1000)
    with pytest.raises(GuardError, match="damaged or no store"):
        SqliteStore(path)
    assert path.read_text() == "Dear all, " * 1000
    other = tmp_path / "other.db"
    change(other, "CREATE TABLE version (x)")
    with pytest.raises(GuardError, match="no store of ModelKeep's"):
        SqliteStore(other)


def test_a_newer_version_is_refused(path: Path) -> None:
    change(path, "UPDATE version SET version = 2")
    with pytest.raises(GuardError, match="has version 2 of the store's tables; this ModelKeep knows version 1"):
        SqliteStore(path)


def test_a_full_disk_is_said_and_passes(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        (pages,) = store._file._writer.execute("PRAGMA page_count").fetchone()
        store._file._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            all(store.append("e", 0, position, ROW) for position in range(5, 1000))
        position = store.sizes("e")[0]
        assert 5 < position < 1000
        store._file._writer.execute("PRAGMA max_page_count = 100000")
        assert store.append("e", 0, position, ROW)


def test_another_writer_is_waited_for_but_not_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "PATIENCE", 0.05)
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="another process"):
            store.append("e", 0, 5, ROW)
        assert len(store.centroids("e", 0, 0)) == 5  # readers wait for nobody
        other.execute("COMMIT")
        assert store.append("e", 0, 5, ROW)


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that everybody may read; while the test runs, we are not root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        SqliteStore(folder / "guard.db").close()
        (folder / "guard.db").chmod(0o444)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)


def test_no_permission(as_nobody: Path) -> None:
    with pytest.raises(StoreUnavailable, match="permission"), closing(SqliteStore(as_nobody / "guard.db")) as store:
        store.append("e", 0, 0, ROW)
    with pytest.raises(StoreUnavailable, match=r"new\.db cannot be used: Permission denied"):
        SqliteStore(as_nobody / "new.db")


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        open_store(f"sqlite:///{tmp_path}/no/such/guard.db")


def test_the_file_is_private_durable_and_holds_no_key(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(SqliteStore(path)) as store:
        store.admit(Principal("anna", None, None), bytes(32))
        assert store._file._writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._file._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [file.name for file in path.parent.iterdir()] == ["guard.db"]  # nothing half made is left
