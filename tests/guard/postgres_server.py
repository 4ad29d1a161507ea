"""A real PostgreSQL server on a free port of 127.0.0.1, in a folder of its own, to be stopped and killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from processes import PATIENCE

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "autovacuum": "off",
    "log_min_messages": "panic",
}
# When the test process ends, however it ends, its end of the pipe closes, and nothing is left behind.
GUARD = 'cat; test -f data/postmaster.pid && kill -QUIT "$(head -n 1 data/postmaster.pid)"; cd /; rm -rf "$0"'


class PostgresServer:
    """A server with an empty database. PostgreSQL refuses to run as root; then it runs as user `postgres`.

    `fsync=False`: what a killed server wrote, the kernel still holds, so only a loss of power could tell the
    difference; and a recovery takes a tenth of the time.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        programs = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="modelkeep-pg-"))
        self._databases = 0
        self._reused = ""
        self._user: str | None = None
        if os.getuid() == 0:
            self._user = "postgres"
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._guard = self._run(["sh", "-c", GUARD, str(self.folder)], stdin=subprocess.PIPE)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        made = self._run([str(programs / "initdb"), "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"])
        if made.wait(60) != 0:
            raise RuntimeError(f"initdb failed: {self.log()}")
        settings = SETTINGS | {"fsync": "on" if fsync else "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        place = ["-D", "data", "-p", str(self.port), "-k", str(self.folder)]
        self._command = [str(programs / "postgres"), *place, *options]
        self.start()

    def database(self) -> str:
        """The address of a new, empty database, for a test that wants one of its own."""
        self._databases += 1
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE test{self._databases}".encode())
        return self.dsn.removesuffix("postgres") + f"test{self._databases}"

    def emptied(self) -> str:
        """The address of one database for one test after the other, empty again: much cheaper than a new one."""
        self._reused = self._reused or self.database()
        with psycopg.connect(self._reused, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS modelkeep CASCADE")
        return self._reused

    def start(self) -> None:
        """Start, and wait until it answers (after a crash it first recovers)."""
        self._server = self._run(self._command)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{self.log()}") from error
                time.sleep(0.02)
            if self._server.poll() is not None:  # children of a killed server still held its memory
                self._server = self._run(self._command)

    def stop(self) -> None:
        """Stop in immediate mode: all connections are cut, nothing is tidied up, the next start recovers."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """`kill -9` of the server; its children notice and go."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop in immediate mode and start again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and remove everything."""
        if self._server.poll() is None:
            self.stop()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(PATIENCE)

    def log(self) -> str:
        """What the server has said."""
        return (self.folder / "log").read_text()

    def _end(self, how: signal.Signals) -> None:
        self._server.send_signal(how)
        self._server.wait(PATIENCE)

    def _run(self, command: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # what ends the tests must not end the server before the tests are done
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            )


def _programs() -> Path:
    """The folder of PostgreSQL's programs: Debian keeps them off the PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True):
        return found.parent
    raise RuntimeError(
        "These tests start a real PostgreSQL, and none is installed. Run `make system`, or: apt-get install postgresql"
    )
