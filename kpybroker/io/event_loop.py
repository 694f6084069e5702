"""The event loop of a broker process: uvloop where it is installed, asyncio's own otherwise."""

import asyncio
import gc
import os

NO_UVLOOP = "KPYBROKER_NO_UVLOOP"


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that is not set as the thread's loop yet. ``KPYBROKER_NO_UVLOOP=1`` asks for asyncio's."""
    if not os.environ.get(NO_UVLOOP):
        try:
            import uvloop
        except ImportError:
            pass
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


def quiet_garbage_collection() -> None:
    """What exists after the start lives for long: keep the collector from walking it again and again.

    A full collection over 10 000 partitions stops the loop for 170 ms; frozen objects cost nothing. For a process of
    our own only: a guest in somebody's process leaves its collector alone.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
