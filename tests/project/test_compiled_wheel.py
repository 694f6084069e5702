"""A wheel with compiled modules holds the same sources and behaves the same.

``--interpreter PATH`` builds and tries that of another Python (`make wheels-here`).
"""

import ast
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from installed import broker, environment_with, run
from sources import ROOT, SHIPPED, tree_of

COMPILERS = (os.environ.get("CC") or "cc", "gcc", "clang")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(4000),
    pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="needs a C compiler: cc not found"),
]

TESTS_OF_COMPILED_MODULES = (
    "wire/test_produce.py",
    "wire/test_skim.py",
    "wire/test_varint.py",
    "fetch",
    "groups",
    "partition/test_validation.py",
    "journal",
    "server",
    "storage/test_cleaner.py",
    "storage/test_control_batches.py",
    "storage/test_descriptors.py",
    "storage/test_gathering.py",
    "storage/test_indexes.py",
    "storage/test_leader_epochs.py",
    "storage/test_log_directory.py",
    "storage/test_read_back.py",
    "testing/test_clock.py",
    "transactions",
)
BESIDE_TESTS = (
    "groups",
    "groups/consumer",
    "groups/streams",
    "journal",
    "metadata",
    "wire",
    "server",
    "storage",
    "transactions",
    "transactions/simulation",
)
"""The folders that these tests import from."""
NOT_OF_COMPILED_CODE = (
    "tests/transactions/simulation/test_simulation_finds_defects.py",
    "tests/fetch/test_session_entries.py",
    "tests/server/test_encrypted_channel.py",
    "tests/server/test_giving_way.py",
    "tests/groups/consumer/test_consumer_histories_against_kafka.py",
    "tests/groups/share/test_share_histories_against_kafka.py",
    "tests/groups/streams/test_streams_histories_against_kafka.py",
    "tests/groups/test_against_kafka.py",
    "tests/groups/test_made_up_kind.py",
    "tests/groups/test_versions_of_requests.py",
)
"""These tests plant defects, or put objects of their own in the place of compiled ones, which compiled code refuses."""
WITH_OTHER_BOUNDS = (
    "test_records_that_are_alike_are_compared_and_few_are_walked",
    "test_a_session_takes_few_changes_at_a_time_and_ends_at_more",
)
"""These tests lower a bound, which compiled code holds as a number."""
PROTOCOL_SUITES = (
    "security/test_acls.py",
    "produce/test_protocol_produce.py",
    "fetch/test_protocol_fetch.py",
    "groups/test_protocol_groups.py",
    "groups/test_protocol_group_offsets.py",
    "transactions/test_protocol_transactions.py",
)
PATIENCE_S = 1800
"""For the build, or for a suite. Each takes some minutes on a machine that does nothing else."""
TESTERS = ("pytest", "pytest-rerunfailures", "pytest-timeout", "hypothesis", "cryptography", "kafka-python")
"""The packages that the tests of the modules need in an environment of another Python."""
A_TEST_OF_THE_FORM = """
from kpybroker.machines.partition import leader, validation
from kpywire import walk

def test_the_modules_under_test_are_compiled():
    assert all(module.__file__.endswith({suffix!r}) for module in (leader, validation, walk))
"""


def listed() -> set[str]:
    """The modules that the build hook compiles, as paths without a suffix."""
    named = (node for node in tree_of(ROOT / "hatch_build.py").body if isinstance(node, ast.Assign))
    (modules,) = (node.value for node in named if ast.unparse(node.targets[0]) == "MODULES")
    return {module.replace(".", "/") for module in ast.literal_eval(modules)}


@pytest.fixture(scope="module")
def builder(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of this version with ``build``."""
    if is_this(interpreter):
        return interpreter
    home = tmp_path_factory.mktemp("builder")
    run(interpreter, "-m", "venv", home / "venv", cwd=home)
    run(home / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "build", cwd=home)
    return home / "venv" / "bin" / "python"


def is_this(interpreter: Path) -> bool:
    return interpreter == Path(sys.executable)


@pytest.fixture(scope="module")
def wheel(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    command = (builder, "-m", "build", "--wheel", "--outdir", directory, ROOT)
    # What the C compiler makes of it behaves the same without its optimising, which takes minutes.
    run(*command, cwd=directory, variables={"KPYBROKER_COMPILE": "1", "MYPYC_OPT_LEVEL": "0"}, timeout_s=PATIENCE_S)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def programs(wheel: Path, interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment that holds nothing but the wheel and what that asks for."""
    return environment_with(wheel, interpreter, tmp_path_factory.mktemp("from-compiled-wheel"))


def test_the_wheel_has_every_source_and_the_compiled_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    roots = [ROOT / package for package in SHIPPED]
    sources = {path.relative_to(root.parent).as_posix() for root in roots for path in root.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    added = {name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    assert added == {*listed(), "kpywire/compiled__mypyc"}
    assert not wheel.name.endswith("-any.whl")


def test_building_it_leaves_the_checkout_alone(wheel: Path) -> None:
    assert wheel.exists()
    assert not [path for package in SHIPPED for path in (ROOT / package).rglob("*.so")]
    assert not (ROOT / "setup.py").exists()


def test_it_says_that_it_is_compiled(programs: Path, tmp_path: Path) -> None:
    assert run(programs / "kpybroker", "--version", cwd=tmp_path).endswith(", compiled\n")


def test_a_record_goes_in_and_comes_out(programs: Path, tmp_path: Path) -> None:
    with broker(programs, tmp_path) as address:
        run(programs / "kpybroker", "produce", "hello", "-b", address, cwd=tmp_path, stdin="world\n")
        read = run(programs / "kpybroker", "consume", "hello", "--count", "1", "-b", address, cwd=tmp_path)
    assert read == "world\n"


def test_the_modules_pass_the_tests_of_their_sources(programs: Path, interpreter: Path, tmp_path: Path) -> None:
    (packages,) = programs.parent.glob("lib/python*/site-packages")
    suffix = next(packages.glob("kpywire/walk.*.so")).name.removeprefix("walk")
    form = tmp_path / "test_form.py"
    form.write_text(A_TEST_OF_THE_FORM.format(suffix=suffix))
    tests = [ROOT / "tests" / name for name in TESTS_OF_COMPILED_MODULES]
    beside = [ROOT / "tests" / name for name in BESIDE_TESTS]
    found_by = f"pythonpath={' '.join(map(str, (*beside, ROOT / 'compat-tests')))}"
    options = [
        "--rootdir",
        ROOT,
        "-c",
        ROOT / "pyproject.toml",
        "--import-mode=importlib",
        "-o",
        found_by,
        "-m",
        "not java and not slow",
        "-k",
        f"not ({' or '.join(WITH_OTHER_BOUNDS)})",
        *(f"--ignore={ROOT / name}" for name in NOT_OF_COMPILED_CODE),
    ]
    tester = interpreter if is_this(interpreter) else programs / "python"
    if not is_this(interpreter):
        pip = (sys.executable, "-m", "pip", "--python", tester)
        run(*pip, "install", "--quiet", *TESTERS, cwd=tmp_path)
    found = {"PYTHONPATH": str(packages)}
    run(tester, "-m", "pytest", *options, form, *tests, cwd=tmp_path, variables=found, timeout_s=PATIENCE_S)


def test_the_compiled_wheel_passes_protocol_suites(programs: Path) -> None:
    suites = [ROOT / "compat-tests" / name for name in PROTOCOL_SUITES]
    command = (sys.executable, "-m", "pytest", "--kpybroker", programs / "kpybroker", "-m", "not java", *suites)
    run(*command, cwd=ROOT, timeout_s=PATIENCE_S)


def test_the_compiled_wheel_mutes_clients_above_their_quota(programs: Path) -> None:
    command = (sys.executable, "-m", "pytest", f"--hostile-kpybroker={programs / 'kpybroker'}")
    run(*command, "tests/hostile/test_quotas.py", cwd=ROOT, timeout_s=PATIENCE_S)
