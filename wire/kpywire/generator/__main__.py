"""``python -m kpywire.generator JARS JARS_OF_3_9 [TARGET]``: writes the declarations into the package, or another
directory. Messages that 4.0 removed with ZooKeeper mode come from the second jars."""

import sys
from collections import defaultdict
from pathlib import Path

from kpywire.generator.declarations import module_text
from kpywire.generator.error_table import error_codes_text
from kpywire.generator.names import file_stem
from kpywire.generator.specifications import PLACES, Specification, read_package, with_removed
from kpywire.generator.tables import api_text, records_table_text


def generated_files(jars: Path, earlier_jars: Path) -> dict[str, str]:
    """Every generated file: its path inside the package, and its text. ``earlier_jars`` are those of Kafka 3.9."""
    files = {"error_codes.py": error_codes_text(jars)}
    for package in PLACES:
        specifications = read_package(jars, package)
        if package == "messages":
            specifications = with_removed(specifications, read_package(earlier_jars, package))
        modules: dict[str, list[Specification]] = defaultdict(list)
        for each in specifications:
            modules[file_stem(each.name)].append(each)
        files.update({f"{package}/{stem}.py": module_text(package, found) for stem, found in modules.items()})
        if package == "messages":
            files["api.py"] = api_text(specifications)
        else:
            files[f"{package}/table.py"] = records_table_text(specifications)
    return files


def main(arguments: list[str]) -> int:
    """Write the files, and remove none. Return the exit code."""
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(arguments[2]) if len(arguments) == 3 else Path(__file__).resolve().parent.parent
    for path, text in generated_files(Path(arguments[0]), Path(arguments[1])).items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
