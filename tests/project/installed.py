"""Programs of an environment that does not see the checkout: run one to its end, keep a broker while a test lasts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracle import free_port

READY = "Kafka Server started"
HIDDEN = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")


def run(
    *command: str | Path,
    cwd: Path,
    stdin: str = "",
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 300,
) -> str:
    """Run a command that knows nothing of this environment but ``variables``; its output."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    finished = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**environment, **(variables or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert finished.returncode == 0, f"{command}:\n{finished.stdout}{finished.stderr}"
    return finished.stdout


def environment_with(package: Path, interpreter: Path, home: Path) -> Path:
    """The ``bin`` of an environment below ``home`` that holds nothing but a package and what that asks for."""
    programs = home / "venv" / "bin"
    run(interpreter, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    run(*pip, "install", "--quiet", package, cwd=home)
    return programs


@contextmanager
def broker(programs: Path, directory: Path) -> Iterator[str]:
    """A broker from these programs; ends cleanly."""
    address = f"127.0.0.1:{free_port()}"
    command = [programs / "kpybroker", "start", "--data", directory / "data", "--listen", address, "--http", "off"]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        reported = []
        for line in process.stdout:
            reported.append(line)
            if READY in line:
                break
        else:
            pytest.fail(f"the broker ended:\n{''.join(reported)}")
        yield address
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
