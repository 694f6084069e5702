"""An iterator that runs in a thread, some items ahead of the one who reads them: the next piece is fetched while this
one is decoded."""

import contextlib
from collections.abc import Generator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Final, TypeVar

T = TypeVar("T")

LOOK_S: Final = 0.1
"""How often a waiting thread checks whether the reader has gone."""
END_S: Final = 1.0


class _Raised:
    """The error that ended the iterator; None at its end."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Generator[T, None, None], depth: int = 1) -> Generator[T, None, None]:
    """The same items and the same error at the end. ``items`` is closed in its thread when the reader is done."""
    queue: Queue[T | _Raised] = Queue(depth)
    stopping = Event()
    thread = Thread(target=_run, args=(items, queue, stopping), name="kpybroker-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = queue.get()
            if isinstance(item, _Raised):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopping.set()
        with contextlib.suppress(Empty):
            queue.get_nowait()
        thread.join(END_S)


def _run(items: Generator[T, None, None], queue: "Queue[T | _Raised]", stopping: Event) -> None:
    end = _Raised(None)
    try:
        for item in items:
            if not _put(queue, item, stopping):
                break
    except BaseException as error:  # whatever it is, the reader gets it
        end = _Raised(error)
    finally:
        items.close()
    _put(queue, end, stopping)


def _put(queue: "Queue[T | _Raised]", item: T | _Raised, stopping: Event) -> bool:
    """Whether the item could be handed over before the reader was done."""
    while not stopping.is_set():
        with contextlib.suppress(Full):
            queue.put(item, timeout=LOOK_S)
            return True
    return False
