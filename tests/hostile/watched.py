"""A broker in a child process that is watched while it is attacked: its log, memory, descriptors and connections.

Not an attacker: the tests are. Invariant: what is counted here is what the kernel says of the process, or what stands
in its log; the broker is never asked about itself.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from oracle import free_port
from support.targets import KpyBroker

PATIENCE_S = 30.0
_DEFECT = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b|Exception ignored|Task exception")


class WatchedBroker(KpyBroker):
    """kpybroker with eyes on it. ``open_files``: the limit on its descriptors, if it is to be a low one.

    ``http_port`` is where its second port would be; it has one if ``with_http``.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path,
        open_files: int | None = None,
        with_http: bool = False,
    ) -> None:
        offered = {"kpybroker.client.metrics.always.offered": "true"}  # the APIs of client metrics are attacked too
        super().__init__({**offered, **(properties or {})}, directory=directory)
        self.open_files = open_files
        self.with_http = with_http
        self.http_port = free_port()

    def command(self) -> Sequence[str]:
        limited = [] if self.open_files is None else ["prlimit", f"--nofile={self.open_files}"]
        notified = [*limited, *super().command()]
        if self.with_http:
            notified[notified.index("--http") + 1] = f"127.0.0.1:{self.http_port}"
        return notified

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.directory / "data"

    # What the kernel says

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        return self._status("VmRSS")

    def forget_peak(self) -> None:
        """Let `peak_memory_bytes` start again from what is resident now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_memory_bytes(self) -> int:
        """The most that was resident since `forget_peak`."""
        return self._status("VmHWM")

    def _status(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the kernel does not tell {field}")

    def cpu_s(self) -> float:
        """Processor time it has used."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        """Everything the process has open: files, sockets, pipes."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def sockets(self) -> int:
        """How many sockets it holds: those it listens on, its clients, and those whose client is gone already."""
        count = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += os.readlink(f"/proc/{self.pid}/fd/{name}").startswith("socket:")
            except FileNotFoundError:
                continue
        return count

    # What its log says

    def log_position(self) -> int:
        """The end of the log: `log_since` begins there."""
        return self.output.stat().st_size

    def log_since(self, position: int) -> list[str]:
        """The lines written since `log_position` gave ``position``."""
        with self.output.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace").splitlines()

    def defects_since(self, position: int) -> list[str]:
        """Lines that a broker writes only when something in it is wrong: none of them is a client's to cause."""
        return [line for line in self.log_since(position) if _DEFECT.search(line)]
