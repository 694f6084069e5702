"""Where the command line begins, also as ``python -m kpybroker``.

It imports nothing until Ctrl-C ends it without a traceback; what is said and done is in ``kpybroker.cli``.
"""

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it with exit code 130."""
    try:
        from kpybroker.cli import main as command

        command(prog_name="kpybroker")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
