"""A command of ours that runs until a block ends, told to have started by its own line."""

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kpybroker.node.local_cluster.child import READY
from oracle.process import die_with_parent


@contextmanager
def started(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, ending: signal.Signals = signal.SIGTERM
) -> Iterator[None]:
    """Run it from when it says that it is ready until ``ending`` is sent to it. It may print no traceback."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    try:
        reported: list[str] = []
        while not reported or READY not in reported[-1]:
            reported.append(process.stdout.readline())
            assert reported[-1], f"it ended:\n{''.join(reported)}"
        yield
    finally:
        process.send_signal(ending)
        rest = process.communicate(timeout=60)[0]
    assert "Traceback" not in "".join(reported) + rest
