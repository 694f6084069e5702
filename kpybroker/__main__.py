"""``python -m kpybroker``: the command line where scripts are not on the path. Nothing else is here."""

from kpybroker.cli import main

main(prog_name="kpybroker")
