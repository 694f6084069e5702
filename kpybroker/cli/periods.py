"""A length of time as an option takes it: ``7d``, ``12h``, ``30min``, ``90s`` or ``500ms``."""

import re
from typing import Any, Final

import click

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Period(click.ParamType[int]):
    """``7d``, ``12h``, ``30min``, ``90s`` or ``500ms``, in ms."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        found = re.fullmatch(r"([0-9]{1,12})(ms|s|min|h|d)", str(value))
        if found is None:
            self.fail(f"{value!r} is not a period such as 7d, 12h, 30min, 90s or 500ms", param, context)
        return int(found[1]) * _UNITS_MS[found[2]]


PERIOD: Final = Period()
