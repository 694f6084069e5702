"""The machine that figures were taken on."""

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """What the figures depend on."""
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
