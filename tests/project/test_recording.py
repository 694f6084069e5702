"""The recording of a terminal in README.md: drawn from its events alone, self-contained, and twenty seconds long."""

import importlib.util
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st
from sources import ROOT

from kpybroker.cli import COMMANDS


def _loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("recording", ROOT / "release" / "recording.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["recording"] = module
    found.loader.exec_module(module)
    return module


recording = _loaded()
EVENTS = recording.events_in(recording.CAST.read_text())
SHOWN = "".join(text for _, text in EVENTS)


def test_the_picture_is_drawn_from_the_recording() -> None:
    assert recording.SVG.read_text() == recording.svg_of(EVENTS) + "\n", "run: make recording"
    header = json.loads(recording.CAST.read_text().partition("\n")[0])
    assert (header["version"], header["width"]) == (2, recording.COLUMNS)


def test_the_recording_takes_about_twenty_seconds_in_time_order() -> None:
    times = [at_s for at_s, _ in EVENTS]
    assert times == sorted(times)
    assert 15 <= times[-1] <= 25


def test_every_command_is_in_it_and_exists() -> None:
    for command in (recording.BROKER, *recording.COMMANDS):
        assert f"{command}\r\n" in SHOWN, "run: make recording"
        for name in re.findall(r"\bkpybroker ([a-z]+)", command):
            assert name in COMMANDS
    assert "Kafka Server started" in SHOWN
    assert "hello world" in SHOWN
    assert "rror" not in SHOWN


def test_the_recording_has_no_paths_of_the_machine() -> None:
    assert not re.search(r"(?<![\w.:/])/\w+/", SHOWN)


def test_the_picture_has_no_script_and_loads_nothing() -> None:
    text = recording.SVG.read_text()
    root = ElementTree.fromstring(text)
    assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {"svg", "style", "rect", "circle", "text"}
    assert not re.search(r"url\(|href|@import", text)
    assert "prefers-reduced-motion" in text


@given(st.lists(st.tuples(st.floats(0, 20), st.text(max_size=200)), min_size=1))
def test_any_output_is_drawn(events: list[tuple[float, str]]) -> None:
    printable = [
        (at_s, "".join(each for each in text if each.isprintable() or each in "\r\n")) for at_s, text in events
    ]
    ElementTree.fromstring(recording.svg_of([*printable, (21.0, "")]))
