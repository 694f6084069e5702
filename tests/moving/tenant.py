"""kpybroker where Apache Kafka lived before: with its ``server.properties``, on its port, in its directories."""

from pathlib import Path

from contents import Contents
from filling import DELETED

from kpybroker.cli.checking import check_directories
from kpystorage import names
from kpystorage.checking.findings import DAMAGE
from kpystorage.checkpoint import parse_offsets
from oracle import ApacheKafka, BrokerProcessError
from support.targets import KpyBroker
from support.waiting import eventually


class Tenant(KpyBroker):
    """Started with the very file that Apache Kafka was started with."""

    start_timeout_s = 120.0

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(directory=kafka.directory)
        self.port = kafka.port

    def prepare(self) -> None:
        """The file is there."""

    @property
    def output(self) -> Path:
        return self.directory / "kpybroker.log"

    def refusal(self) -> str:
        """The line with which it refuses to start; AssertionError if it starts, or says more."""
        self.output.unlink(missing_ok=True)
        try:
            self.start()
        except BrokerProcessError:
            lines = self.output.read_text().splitlines()
            reported = [line for line in lines if "WARNING" not in line and " INFO " not in line]
            assert len(reported) == 1, reported
            return reported[0]
        self.stop()
        raise AssertionError("it started")


def wait_for_log_start(data: Path, seen: Contents) -> None:
    """Until the file says what DeleteRecords has moved; Apache Kafka forgets it in a crash before."""
    start = seen.bounds[DELETED, 0][0]
    path = data / names.LOG_STARTS
    eventually(lambda: parse_offsets(path.read_bytes(), str(path)).get((DELETED, 0)) == start, "the log start on disk")


def check(data: Path) -> None:
    """Nothing is wrong with the directory."""
    found = check_directories([str(data)], lambda _: None, lambda _: None)
    damage = [each for each in found.findings if each.level == DAMAGE]
    assert not damage, damage
