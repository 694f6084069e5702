"""A broker for tests in a process of its own: ``python -m kpybroker.testing.program SETTINGS``.

Reads commands from standard input, one JSON line each, and answers each with one on standard output. Ends with a clean
stop when its input ends: with the test run, however that ends.
"""

import asyncio
import json
import os
import signal
import sys
from typing import Any

from kpybroker.testing.embedded import BrokerSettings, EmbeddedNode

_LONGEST_LINE_BYTES = 1 << 20


async def serve(settings: BrokerSettings) -> None:
    """Execute commands until the input ends."""
    node = EmbeddedNode(settings)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    while line := await reader.readline():
        number, name, arguments = json.loads(line)
        answers.write(json.dumps({"number": number, **await _answer(node, name, arguments)}) + "\n")
        answers.flush()
    await node.stop()


async def _answer(node: EmbeddedNode, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if node.failure is not None:
        return {"error": f"the broker gave up: {node.failure}"}
    try:
        return {"result": await node.command(name, arguments)}
    except Exception as error:
        return {"error": f"the broker did not {name}: {error}"}


def main() -> None:
    """Run until the end of standard input. Ctrl-C in a terminal is for the test run, which closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(serve(BrokerSettings(*json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
