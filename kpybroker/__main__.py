"""Where the command line begins, also as ``python -m kpybroker``: what it says and does is in ``kpybroker.cli``."""

import signal


def main() -> None:
    """Run the command line. While it is being loaded, Ctrl-C just ends the process.

    As an exception it would come in the middle of somebody's import: a traceback, or lost where one is caught.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kpybroker.cli import main as command

    command(prog_name="kpybroker")


if __name__ == "__main__":
    main()
