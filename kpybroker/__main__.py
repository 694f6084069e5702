"""The start of the command line, also as ``python -m kpybroker``. Its commands are in ``kpybroker.cli``."""

import signal


def main() -> None:
    """Run the command line. While it is being loaded, Ctrl-C just ends the process.

    As an exception, Ctrl-C would interrupt an import: it would cause a traceback, or be lost if the imported module
    catches it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kpybroker.cli import main as command

    command(prog_name="kpybroker")


if __name__ == "__main__":
    main()
