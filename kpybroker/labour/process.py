"""The process that works beside the event loop: ``python -m kpybroker.labour.process PARENT``."""

from kpybroker.io.worker_process import run
from kpybroker.labour.tasks import Failed, done

if __name__ == "__main__":
    run(lambda task: [done(task)], Failed)
