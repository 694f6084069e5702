"""Control characters as terminals may see them: ``\\x1b`` in place of the character."""

_REORDERING = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that show the text behind them in another order."""
CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *_REORDERING)},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
