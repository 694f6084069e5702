"""The start of the command line, also as ``python -m kpybroker``. Its commands are in ``kpybroker.cli``."""

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn


def main() -> None:
    """Run the command line. While it is being loaded, Ctrl-C just ends the process.

    As an exception, Ctrl-C would interrupt an import: it would cause a traceback, or be lost if the imported module
    catches it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    from kpybroker.cli import NodeEnded
    from kpybroker.cli import main as command

    gc.freeze()  # modules stay, and the collector need not walk them
    gc.enable()
    try:
        command(prog_name="kpybroker")
    except NodeEnded as ended:
        _leave(ended)
    except SystemExit as ended:
        if all(each.daemon or each is threading.current_thread() for each in threading.enumerate()):
            atexit._run_exitfuncs()
            _leave(ended)
        raise


def _leave(ended: SystemExit) -> NoReturn:
    """End the process without taking the interpreter apart, which takes longer than all that a node does to stop, and
    a quarter of the time of a short command.

    A profiler or a tracer of the process writes what it has at the usual end."""
    if sys.getprofile() is None and sys.gettrace() is None and isinstance(ended.code, int | None):
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code or 0)
    raise ended


if __name__ == "__main__":
    main()
