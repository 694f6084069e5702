"""docs/fairness.md: how fairness works, with its constants.

The tables are made of `kpybroker.runtime.fairness.times`, from its comments and docstrings; a test holds the file
against it.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from kpybroker.runtime.fairness import times

_HEAD: Final = """\
# How fairness works

Written by `make tables` from `kpybroker/runtime/fairness/times.py`.

A node is one event loop. Whatever runs on it keeps everybody else waiting, so a request may use the loop for half a
millisecond at a stretch. Five rules follow from that.

1. **Cheap connections are served immediately; expensive ones queue.** A connection that uses more than its share owes
   time, and a new one begins with a small debt. While it owes anything, its requests wait in the line
   (`kpybroker/runtime/fairness/line.py`), unless the line is empty and nobody else is readable. One turn of the loop
   serves one piece of the line and then every cheap connection that is readable. Each short piece pays back a part of
   the debt. Once a turn has taken 4 ms, only short requests other than Produce and Fetch are still served in it; others
   queue.
2. **Large requests are cut into slices** (`kpybroker/runtime/fairness/slices.py`). Decoding, handling and encoding are
   generators; after each slice the request joins the line again.
3. **Work that cannot be sliced draws on a shared time budget** (`kpybroker/runtime/fairness/account.py`). Occasional
   administrative requests never exhaust it. A flood does, and then has to wait.
4. **Requests that end a transaction go first** (`kpybroker/runtime/fairness/aside.py`), since the producer and all
   readers of committed records wait for them.
5. **Long work on one batch leaves the loop**: another process does it (`kpybroker/hosts/labour/`).

```
                    readable
                       |
        owes nothing   v   owes time, or larger than 128 KiB in a shared turn
          +------------+-------------+
          |                          v
          |                 +------ line ------+   one piece per turn of the loop
          |                 |  o  o  o  o  o   |<----------------------+
          |                 +--------+---------+                       |
          v                          v                                 |
        serve ------------------> a slice ----- more to do ------------+
          |                          |
          v                          v
        reply                      reply
```

When many connections are readable at once, their appends are gathered into one write per file, and their replies leave
together (`kpybroker/runtime/fairness/turn.py`). Any read of a log writes its gathered appends first, so batching is
invisible to others.

[bounds.md](bounds.md) says what a client can cost in memory and connections.

## What leaves the event loop

A batch is a few bytes that may inflate to a thousand times as many, with records that have to be read one by one. The
loop begins each check with a limit: 1.1 MiB of inflated bytes, 1 024 members or blocks, 4 096 records that do not look
alike (262 144 in compiled wheels), and no compression that takes more than about 3 ms. Batches as clients write them by
default stay within it. A batch that does not is checked by another process (`python -m
kpybroker.hosts.labour.process`), which answers the verdict, and the batch if the topic wants it compressed otherwise.
Then the leader is asked again, and the batch is appended. The connection keeps its order meanwhile, and all others are
served. ListOffsets, share groups that begin at a time and the console search batches for a time in the same way.

A Produce with many batches appends for 4 ms, and goes on in steps.

The process works for one client at a time. The next is the one that has used it least
(`kpybroker/runtime/fairness/parties.py`); a client is a principal at an address, whatever the number of its
connections. The process ends after half a minute without work.

## Clients that connect again

A connection that did work which cannot be cut waits for the account before its next request, and so does the next new
connection from its address (`kpybroker/runtime/fairness/debts.py`): a client gains nothing by connecting again. Each
such piece of work has one heir, so other clients at the address do not pay for it twice, and nobody waits while the
account holds something.
"""


def document() -> str:
    """The content of docs/fairness.md."""
    lines = [_HEAD]
    for title, constants in _sections():
        lines += [f"## {title}", "", "| constant | value | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | {_value(name)} | {meaning} |" for name, meaning in constants]
        lines.append("")
    return "\n".join(lines)


def _sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The constants under each comment of `times`: (name, docstring)."""
    source = Path(times.__file__).read_text()
    lines = source.splitlines()
    titles = {number: line[2:-1] for number, line in enumerate(lines, 1) if line.startswith("# ")}
    starts = sorted(titles)
    body = ast.parse(source).body
    found: dict[int, list[tuple[str, str]]] = {start: [] for start in starts}
    for constant, meaning in pairwise(body):
        if isinstance(constant, ast.AnnAssign) and isinstance(meaning, ast.Expr):
            assert isinstance(constant.target, ast.Name)
            assert isinstance(meaning.value, ast.Constant)
            section = max(start for start in starts if start < constant.lineno)
            found[section].append((constant.target.id, str(meaning.value.value)))
    return ((titles[start], constants) for start, constants in found.items())


def _value(name: str) -> str:
    value = getattr(times, name)
    unit = name.rpartition("_")[2]
    if unit == "NS":
        return f"{value / 1e6:g} ms" if value >= 1_000_000 else f"{value / 1e3:g} µs"
    if unit == "BYTES":
        return f"{value >> 20} MiB" if value >= 1 << 20 else f"{value >> 10} KiB"
    return f"{value:g} ms" if unit == "MS" else f"{value:g}"
