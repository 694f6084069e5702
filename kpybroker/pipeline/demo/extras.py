"""The libraries that the demos need beside kpybroker: one line says which are missing, before anything is started."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

INSTALL = "pip install 'kpybroker[demo]'"
DISTRIBUTIONS = {"kafka": "kafka-python"}
"""The distributions that are not called like the module they install."""


def need(*modules: str) -> None:
    """Ends the program with code 1 and one line if one of these cannot be imported."""
    missing = [DISTRIBUTIONS.get(name, name) for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        end(f"this demo needs {', '.join(missing)}: {INSTALL} (in a checkout: pip install -e '.[demo]')")


def need_java() -> None:
    """The same where Spark would find no Java."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(str(Path(home, "bin", "java")) if home else "java") is None:
        looked = f"JAVA_HOME is {home}, and no bin/java is in it" if home else "no java is on the path"
        end(f"Spark needs Java 17 or 21, and {looked}")


def end(why: str) -> None:
    print(f"Error: {why}", file=sys.stderr)
    raise SystemExit(1)
