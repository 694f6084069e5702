"""Writes ``error_codes.py`` from Kafka's own enumeration of errors, which only Java can read."""

import subprocess
import textwrap
from pathlib import Path

from kpywire.generator.declarations import WIDTH

_HEAD = '''"""Kafka's error codes, their default messages, and which clients retry (Kafka's class Errors).

Written by `kpywire.generator`.
"""

from typing import Final

'''
_TAIL = '''

def name(code: int) -> str:
    """Kafka's name of an error; UNKNOWN_SERVER_ERROR for a code it does not have."""
    return _NAMES.get(code, "UNKNOWN_SERVER_ERROR")


def message(code: int) -> str:
    """The message of an error in Kafka, unless a handler gives a longer one."""
    return _MESSAGES.get(code, _MESSAGES[UNKNOWN_SERVER_ERROR])


def retriable(code: int) -> bool:
    """Whether Kafka's clients try again."""
    return code in _RETRIABLE
'''


def error_codes_text(jars: Path) -> str:
    """``error_codes.py``. RuntimeError if Java cannot run."""
    program = Path(__file__).with_name("ErrorFacts.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(program)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"{program.name}: {finished.stderr}")
    lines = [line.split("\t") for line in finished.stdout.splitlines()]
    errors = sorted((int(code), name, retried, message) for code, name, retried, message in lines)
    text = _HEAD + "".join(f"{name}: Final = {code}\n" for code, name, _, _ in errors)
    text += "\n_NAMES = {code: name for name, code in globals().items() if name.isupper() and isinstance(code, int)}\n"
    text += "\n_RETRIABLE = {\n" + "".join(f"    {name},\n" for _, name, retried, _ in errors if retried == "true")
    text += "}\n\n_MESSAGES = {\n" + "".join(_message_row(name, message) for _, name, _, message in errors)
    return text + "}\n" + _TAIL


def _message_row(name: str, message: str) -> str:
    line = f"    {name}: {_quoted(message)},\n"
    if len(line) <= WIDTH + 1:
        return line
    parts = textwrap.wrap(message, WIDTH - 11)
    last = len(parts) - 1
    lines = [f"        {_quoted(part if at == last else part + ' ')}\n" for at, part in enumerate(parts)]
    return f"    {name}: (\n{''.join(lines)}    ),\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
