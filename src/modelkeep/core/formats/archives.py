"""Archives as torch writes them: their parts are stored and not compressed, so that none is larger than its file."""

from __future__ import annotations

import zipfile
from pathlib import Path

from modelkeep.core.errors import ModelError


def require_stored(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse an archive that unpacks to more than it is: torch never writes one, and it may fill all memory."""
    unpacked = sum(member.file_size for member in archive.infolist())
    size = path.stat().st_size
    if unpacked > size:
        raise ModelError(
            f"'{path}' has {size:,} bytes and unpacks to {unpacked:,}. torch stores weights without compression, so "
            "this file was made by something else and is not read."
        )


def require_stored_file(path: Path) -> None:
    """The same for a file that may be no archive at all."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            require_stored(archive, path)
