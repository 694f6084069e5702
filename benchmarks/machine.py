"""The machine that figures were taken on, and the commit of what was measured."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from benchmarks import CHECKOUT

SHIPPED = ("kpybroker", "wire", "storage", "pyproject.toml", "hatch_build.py")


def machine() -> dict[str, Any]:
    """The facts about the machine that figures depend on."""
    cpuinfo, meminfo = Path("/proc/cpuinfo").read_text(), Path("/proc/meminfo").read_text()
    models = [text.split(":", 1)[1].strip() for text in cpuinfo.splitlines() if text.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(meminfo.split()[1]) / 1e6, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def machine_text() -> str:
    seen = machine()
    return (
        f"{seen['cores']} cores of {seen['cpu']}, {seen['memory_gb']} GB, Linux {seen['kernel']}, "
        f"Python {seen['python']}."
    )


def commit() -> str:
    """The last commit that changed what is installed, with ``-changed`` if files differ from it; empty without git."""
    last = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *SHIPPED)
    return f"{last}-changed" if last and _git("status", "--porcelain", "--", *SHIPPED) else last


def _git(*words: str) -> str:
    try:
        asked = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
