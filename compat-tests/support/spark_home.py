"""A home of Spark whose archives of Python have bytecode.

Spark starts each of its Python processes with ``pyspark.zip``, which has none: every start compiles a hundred modules,
0.8 s of CPU instead of 0.2 s. Spark waits ten seconds for some of them, which is little on a busy machine.
"""

import compileall
import fcntl
import shutil
import sys
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode
from zipfile import ZIP_DEFLATED, ZipFile

import pyspark

from oracle.jars import BUILD


def home_with_bytecode() -> Path:
    """The directory for ``SPARK_HOME``: links to the installed PySpark, and archives with bytecode. The first call of a
    version of Spark and Python makes it, below ``build/``."""
    installed = Path(pyspark.__file__).parent
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = BUILD / f"spark-{pyspark.__version__}" / f"home-{python}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.parent / f".home-{python}", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not home.exists() or not (home / "jars").exists():
            shutil.rmtree(home, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=home.parent) as directory:
                made = Path(directory) / "home"
                _make(installed, made)
                made.rename(home)
    return home


def _make(installed: Path, home: Path) -> None:
    (home / "python" / "lib").mkdir(parents=True)
    for each in installed.iterdir():
        if each.name != "python":
            (home / each.name).symlink_to(each)
    for each in (installed / "python" / "lib").iterdir():
        target = home / "python" / "lib" / each.name
        if each.suffix == ".zip":
            _with_bytecode(each, target)
        else:
            target.symlink_to(each)


def _with_bytecode(archive: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        with ZipFile(archive) as packed:
            packed.extractall(directory)
        compileall.compile_dir(directory, quiet=2, legacy=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        with ZipFile(target, "w", ZIP_DEFLATED) as made:
            for path in sorted(Path(directory).rglob("*")):
                made.write(path, path.relative_to(directory))
