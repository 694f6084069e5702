"""The process that reads and searches records: ``python -m kpybroker.monitoring.console.reading_process PARENT``."""

from collections.abc import Iterator

from kpybroker.machines.console.record_tasks import Answer, RecordTask, SearchEnded, work
from kpybroker.runtime.io.worker_process import run
from kpystorage.reading_disk import ReadingDisk
from kpystorage.real_file import Descriptors


def main() -> None:
    """Do tasks until there are no more."""
    disk = ReadingDisk(Descriptors(16))

    def answers(task: RecordTask) -> Iterator[Answer]:
        return work(disk, task)

    run(answers, lambda reason: SearchEnded(reason, ()))


if __name__ == "__main__":
    main()
