"""The event loop of a broker process: uvloop where it is installed, asyncio's own otherwise."""

import asyncio
import os

NO_UVLOOP = "KPYBROKER_NO_UVLOOP"


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that is not yet set as the thread's loop. ``KPYBROKER_NO_UVLOOP=1`` asks for asyncio's."""
    if not os.environ.get(NO_UVLOOP):
        try:
            import uvloop
        except ImportError:
            pass
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()
