"""The process that works beside the event loop: ``python -m kpybroker.hosts.labour.process PARENT``."""

from kpybroker.hosts.labour.tasks import TaskFailed, done
from kpybroker.runtime.io.worker_process import run

if __name__ == "__main__":
    run(lambda task: [done(task)], TaskFailed)
