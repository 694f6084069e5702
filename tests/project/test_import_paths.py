"""The import paths that users have: they go on working, and each name is one module, however it is imported."""

import subprocess
import sys

import pytest

PATHS = (
    ("kpybroker.testing", "Broker"),
    ("kpybroker.testing", "Cluster"),
    ("kpybroker.testing", "KafkaContainer"),
    ("kpybroker.testing", "OidcProvider"),
    ("kpybroker.pytest_plugin", "kpybroker_options"),
    ("kpybroker.spark", "KpybrokerSource"),
    ("kpybroker.spark.audit", "findings"),
    ("kpybroker.spark.lake", "Lake"),
    ("kpybroker.audit.cluster", "Cluster"),
    ("kpybroker.lake.generations", "Wish"),
    ("kpybroker.lake.target", "target_of"),
    ("pyspark_kpybroker", "DefaultSource"),
)


def output_of(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize(("module", "name"), PATHS)
def test_an_import_path_of_the_documents_works(module: str, name: str) -> None:
    assert output_of(f"from {module} import {name}; print('imported')") == "imported\n"


def test_a_module_that_moved_is_the_same_under_both_names() -> None:
    program = (
        "from kpybroker.lake.generations import WriteMode as Wish\n"
        "from kpybroker.pipeline.lake.generations import WriteMode as Moved\n"
        "import kpybroker.lake, kpybroker.pipeline.lake\n"
        "print(Wish is Moved, kpybroker.lake is kpybroker.pipeline.lake)"
    )
    assert output_of(program) == "True True\n"


@pytest.mark.parametrize("name", ["kpybroker.nothing", "kpybroker.lake.nothing", "kpybroker.lakes"])
def test_a_module_that_never_was_is_not_found(name: str) -> None:
    program = f"try:\n import {name}\nexcept ModuleNotFoundError as error:\n print(error.name)"
    assert output_of(program).startswith("kpybroker.")
