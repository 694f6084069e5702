"""Twenty things that people do with a console, done in a real browser with the clicks counted. ``make clicks`` writes
the table of ``docs/console.md`` again.

A click is a press of the mouse, or of a button. Typing into a field and choosing from a list are none.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from console_node import ConsoleNode, console_node
from person import Person

from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.pages import PAGES
from kpywire.record import Record
from support.browser import Browser
from support.waiting import eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "console.md"
SETTINGS = {"kpybroker_console_write_enable": "true"}
NOT_HERE = "–"


class CountingBrowser(Browser):
    """A browser that counts clicks."""

    clicks = 0

    def click(self, element: str) -> None:
        self.clicks += 1
        super().click(element)

    def fill(self, element: str, text: str) -> None:
        before = self.clicks
        super().fill(element, text)
        self.clicks = before


class Job(NamedTuple):
    """A job, the change or page that it is done with, and the deed, which ends with what a person wanted to see."""

    name: str
    address: str
    deed: Callable[[Person], None]


def furnish(node: ConsoleNode) -> None:
    """Make what the jobs need."""
    node.create("flights", 2)
    node.create("unwanted")
    node.produce(
        "flights", [Record(key=b"LX%d" % n, value=b"to %d" % n, timestamp=1_700_000_000_000 + n) for n in range(20)]
    )
    node.commit("readers", "flights", 5)


def follow(person: Person, *texts: str, where: str = "main") -> None:
    """Click on links, one after the other, by their texts."""
    for text in texts:
        links = f"[...document.querySelectorAll('{where} a')]"
        person.browser.follow_click(f"{links}.find((each) => each.textContent.trim() === {json.dumps(text)})")


def menu(person: Person, text: str) -> None:
    follow(person, text, where="nav")


def topic(person: Person, name: str = "flights") -> None:
    menu(person, "Topics")
    follow(person, name)


def records(person: Person) -> None:
    topic(person)
    follow(person, "Records")


def sees(person: Person, *texts: str) -> None:
    assert [each for each in texts if each not in person.shown] == [], person.shown


def opened(person: Person, form: str) -> None:
    """Open the folded part in which a form or field is, if it is folded."""
    if person.browser.run(f"{form}.closest('details:not([open])') !== null"):
        person.browser.click(f"{form}.closest('details').querySelector('summary')")


# The jobs


def health(person: Person) -> None:
    sees(person, "Healthy")


def find_topic(person: Person) -> None:
    person.browser.fill("document.getElementById('find')", "fligh")
    person.browser.follow_click("document.querySelector('.find button')")
    follow(person, "flights")
    sees(person, "Topic flights")


def partitions(person: Person) -> None:
    topic(person)
    sees(person, "Partition", "Leader", "In sync")


def newest(person: Person) -> None:
    records(person)
    sees(person, "LX19")


def show(person: Person, texts: Mapping[str, str], ticked: str = "") -> None:
    records(person)
    person.press("/records", "Show", texts, method="get", ticked=ticked)


def from_offset(person: Person) -> None:
    show(person, {"start": "offset", "offset": "7", "partition": "0"})
    sees(person, "LX7")
    assert "LX6" not in person.shown


def from_time(person: Person) -> None:
    show(person, {"start": "time", "time": "1700000000009"})
    sees(person, "LX9")
    assert "LX8" not in person.shown


def containing(person: Person) -> None:
    records(person)
    field = "document.querySelector('main [name=text]')"
    opened(person, field)
    person.browser.fill(field, "to 13")
    person.browser.follow_click(f"[...{field}.closest('details').querySelectorAll('button')].at(-1)")
    eventually(lambda: "LX13" in (person.browser.run("refresh()"), person.shown)[1], "the record is found")


def watch(person: Person) -> None:
    show(person, {}, ticked="live")
    person.browser.run("document.activeElement.blur()")
    person.node.produce("flights", [Record(key=b"fresh", value=b"v", timestamp=1_700_000_001_000)])
    eventually(lambda: "fresh" in person.shown, "the new record is shown")


def produce(person: Person) -> None:
    records(person)
    person.browser.click(
        "[...document.querySelectorAll('main a, main summary')].find((each) => each.textContent === 'Produce a record')"
    )
    value = "document.querySelector('main textarea[name=value]')"
    eventually(lambda: person.browser.run(f"{value}?.checkVisibility() === true"), "the form")
    person.press("/topics/flights/records", "Produce", {"key": "by hand", "value": "v"})
    sees(person, "by hand")


def download(person: Person) -> None:
    records(person)
    person.browser.call("Browser.setDownloadBehavior", session=None, behavior="deny")
    person.browser.click("document.querySelector('main a[download]')")


def create(person: Person) -> None:
    menu(person, "Topics")
    person.press("/topics", "Create", {"name": "made"})
    sees(person, "Topic made")


def configure(person: Person) -> None:
    topic(person)
    name = "retention.ms"
    form = f"""[...document.forms].find((form) => new URL(form.action).pathname.endsWith("/configs")
      && [...form.elements.namedItem("name").options ?? [form.elements.namedItem("name")]].some(
        (each) => each.value === {json.dumps(name)}))"""
    opened(person, form)
    if person.browser.run(f"{form}.elements.namedItem('name').options !== undefined"):
        person.browser.run(f"{form}.elements.namedItem('name').value = {json.dumps(name)}")
    person.browser.fill(f"{form}.elements.namedItem('value')", "259200000")
    person.browser.follow_click(f"{form}.querySelector('button')")
    assert person.client.config("flights", name) == "259200000"


def add_partitions(person: Person) -> None:
    topic(person)
    person.press("/topics/flights/partitions", "Add partitions", {"count": "3"})
    assert person.client.partitions("flights") == 3


def delete_records(person: Person) -> None:
    topic(person)
    person.press("/topics/flights/records/delete", "Delete records", {"before": "all"})


def delete_topic(person: Person) -> None:
    topic(person, "unwanted")
    person.press("/topics/unwanted/delete", "Delete the topic", {"confirm": "unwanted"})
    eventually(lambda: not person.client.partitions("unwanted"), "the topic is gone")


def lags(person: Person) -> None:
    menu(person, "Groups")
    sees(person, "readers", "15")


def reason(person: Person) -> None:
    menu(person, "Groups")
    follow(person, "readers")
    sees(person, "It has no member", "Members", "Positions")


def set_positions(person: Person) -> None:
    menu(person, "Groups")
    follow(person, "readers", "Set its positions")
    person.press("/group/reset", "Preview", method="get")
    person.press("/group/reset", "Set 1 position")


def configs(person: Person) -> None:
    menu(person, "Configs")
    sees(person, "log.dirs", "the broker's file")


def acls(person: Person) -> None:
    menu(person, "Security")
    sees(person, "ACLs")


JOBS = (
    Job("See whether the cluster is well, and why not", "/", health),
    Job("Find a topic by a part of its name", "/find", find_topic),
    Job("See leaders, replicas and those in sync of a topic", "/topics/{topic}", partitions),
    Job("Read the newest records of a topic", "/records", newest),
    Job("Read records from an offset on", "/records", from_offset),
    Job("Read records from a time on", "/records", from_time),
    Job("Find the records that contain a text", "/records", containing),
    Job("Watch new records as they come", "/records", watch),
    Job("Produce a record", "/topics/{topic}/records", produce),
    Job("Download the records that are shown", "/records", download),
    Job("Create a topic", "/topics", create),
    Job("Change a config of a topic", "/topics/{topic}/configs", configure),
    Job("Add partitions to a topic", "/topics/{topic}/partitions", add_partitions),
    Job("Delete the records of a topic", "/topics/{topic}/records/delete", delete_records),
    Job("Delete a topic", "/topics/{topic}/delete", delete_topic),
    Job("See the lag of every group", "/groups", lags),
    Job("See the members and positions of a group, and why it gets nothing", "/group", reason),
    Job("Set the positions of a group", "/group/reset", set_positions),
    Job("See the configs of a broker", "/configs", configs),
    Job("See the ACLs", "/security", acls),
)


def clicks_of(job: Job, browser: CountingBrowser, node: ConsoleNode) -> str:
    """The clicks from the first page on to the end of a job; a dash where the console cannot do it."""
    if job.address not in {*(page.path for page in PAGES), *(action.path for action in ACTIONS)}:
        return NOT_HERE
    person = Person(browser, node)
    person.open("/")
    browser.clicks = 0
    job.deed(person)
    return str(browser.clicks)


def row_of(text: str, job: Job) -> re.Match[str]:
    """The row of a job in the document: what is before and behind its clicks."""
    found = re.search(rf"(\n\| {re.escape(job.name)} \| )([^|]*)( \|[^\n]*)", text)
    assert found is not None, f"docs/console.md has no row {job.name!r}"
    return found


def main() -> None:
    """Write the clicks into the document."""
    text = DOCUMENT.read_text()
    for job in JOBS:
        with (
            console_node(**SETTINGS) as node,
            TemporaryDirectory(ignore_cleanup_errors=True) as profile,
            CountingBrowser(Path(profile)) as browser,
        ):
            furnish(node)
            row = row_of(text, job)
            text = text.replace(row[0], row[1] + clicks_of(job, browser, node) + row[3])
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
