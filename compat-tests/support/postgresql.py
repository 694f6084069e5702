"""A PostgreSQL server in a directory of its own, with logical replication; its programs are this machine's.

It does not run as root, so as root it is started as the user that Debian's package makes.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from oracle import free_port
from oracle.process import HOST, die_with_parent
from support.waiting import eventually

USER = "postgres"
SETTINGS = ("wal_level=logical", "fsync=off", "max_wal_senders=4", "max_replication_slots=4")


class PostgreSQL:
    """A server with an empty database, used as a context manager; nothing of it stays."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = USER if os.geteuid() == 0 else None
        self._directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
        if self._user is not None:
            os.chown(self._directory, pwd.getpwnam(USER).pw_uid, -1)
        self.port = free_port()

    def __enter__(self) -> Self:
        files = self._directory / "files"
        try:
            made = self._run("initdb", "-D", str(files), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
            assert made.returncode == 0, made.stderr
            options = [word for setting in SETTINGS for word in ("-c", setting)]
            where = ["-h", HOST, "-p", str(self.port), "-k", str(self._directory)]
            with open(self._directory / "log", "wb") as log:
                self._server = subprocess.Popen(
                    [str(self._programs / "postgres"), "-D", str(files), *where, *options],
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    user=self._user,
                    preexec_fn=die_with_parent,
                )
            eventually(lambda: self._psql("SELECT 1").returncode == 0, "PostgreSQL", 60, 0.2)
        except BaseException:
            shutil.rmtree(self._directory)
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.terminate()
        try:
            self._server.wait(10)
        except subprocess.TimeoutExpired:  # a client's replication is still open
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self._directory)

    def sql(self, statements: str) -> str:
        """The rows that the statements return; they are one transaction."""
        finished = self._psql(statements)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def _psql(self, statements: str) -> "subprocess.CompletedProcess[str]":
        connection = ("-h", HOST, "-p", str(self.port), "-U", USER, "-d", USER)
        return self._run("psql", *connection, "-v", "ON_ERROR_STOP=1", "-qAt", "-1", "-c", statements)

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self._directory,
            user=self._user,
            capture_output=True,
            text=True,
            check=False,
        )
