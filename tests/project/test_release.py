"""The artifacts of a release: they are built here where that is possible, and their form is checked where it is not."""

import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from sources import ROOT, SHIPPED

from kpybroker import __version__
from kpybroker.config.broker import BrokerConfig
from release import debian, homebrew, sbom

CHART = ROOT / "release" / "helm" / "kpybroker"
EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def built_in(directory: Path, mode: int, age_s: int) -> Path:
    """The pure wheel of a copy of the sources, with its own modes and times of files."""
    source = directory / "source"
    for name in (*SHIPPED, "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, target)
    for path in source.rglob("*.py"):
        path.chmod(mode)
        os.utime(path, (age_s, age_s))
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory / "dist", cwd=source, **EPOCH)
    (wheel,) = (directory / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two builds of the pure wheel."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    return [built_in(first, 0o644, 1_600_000_000), built_in(second, 0o600, 1_650_000_000)]


def test_two_builds_of_the_pure_wheel_are_equal(wheels: list[Path]) -> None:
    first, second = (wheel.read_bytes() for wheel in wheels)
    assert first == second
    assert wheels[0].name == f"kpybroker-{__version__}-py3-none-any.whl"


# Debian


@pytest.fixture(scope="module")
def package(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("dpkg-deb")
    return debian.build(wheels[0].parent, tmp_path_factory.mktemp("deb"))


def test_the_debian_package_holds_the_wheel_a_unit_and_a_configuration(package: Path, wheels: list[Path]) -> None:
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", package).splitlines() if ": " in line)
    assert fields["Package"] == "kpybroker"
    assert fields["Architecture"] == "all"
    assert fields["Depends"] == "python3 (>= 3.11), python3-venv, adduser"
    listed = run("dpkg-deb", "--contents", package).splitlines()
    assert all(" root/root " in line for line in listed)
    for name in (
        f"./usr/share/kpybroker/wheels/{wheels[0].name}",
        "./lib/systemd/system/kpybroker.service",
        "./etc/kpybroker/server.properties",
        "./usr/share/doc/kpybroker/copyright",
    ):
        (line,) = [line for line in listed if line.endswith(f" {name}")]
        assert line.startswith("-rw-r--r--")


def test_the_scripts_of_the_debian_package_are_sound(package: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "--control", package, tmp_path)
    assert (tmp_path / "conffiles").read_text() == "/etc/kpybroker/server.properties\n"
    for name in ("postinst", "prerm"):
        assert os.access(tmp_path / name, os.X_OK)
        run("sh", "-n", tmp_path / name)


def test_two_builds_of_the_debian_package_are_equal(package: Path, wheels: list[Path], tmp_path: Path) -> None:
    again = debian.build(wheels[0].parent, tmp_path)
    assert again.name == package.name
    assert again.read_bytes() == package.read_bytes()


def test_debian_takes_a_development_version_for_older_than_its_release() -> None:
    needs("dpkg")
    ordered = [debian.debian_version(each) for each in ("0.9.0", "1.0.0.dev0", "1.0.0a1", "1.0.0rc1", "1.0.0", "1.0.1")]
    assert ordered[1:3] == ["1.0.0~dev0", "1.0.0~a1"]
    del ordered[1]  # dev0 and a1 of one version are never both released
    for older, newer in itertools.pairwise(ordered):
        run("dpkg", "--compare-versions", older, "lt", newer)


def test_a_directory_without_the_wheel_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds 0 wheels of kpybroker"):
        debian.build(tmp_path, tmp_path)


def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    needs("systemd-analyze")
    unit = (ROOT / "release" / "systemd" / "kpybroker.service").read_text()
    path = tmp_path / "kpybroker.service"
    # The program and its user are there only after an installation.
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert not [line for line in done.stderr.splitlines() if "kpybroker.service" in line], done.stderr


def test_the_configuration_of_packages_is_taken_without_a_warning() -> None:
    config = BrokerConfig.load(ROOT / "release" / "server.properties")
    assert not config.warnings
    assert config.log_dirs == ("/var/lib/kpybroker",)
    assert all(listener.host == "127.0.0.1" for listener in config.listeners)


# Homebrew


def test_the_formula_has_the_checksum_of_what_it_downloads(tmp_path: Path) -> None:
    sdist = tmp_path / "kpybroker-1.0.0.tar.gz"
    sdist.write_bytes(b"an sdist")
    text = homebrew.formula(sdist, "https://example.org/releases/kpybroker-1.0.0.tar.gz")
    assert f'sha256 "{hashlib.sha256(b"an sdist").hexdigest()}"' in text
    assert "{" not in re.sub(r"#\{[^}]*\}", "", text)
    opened = len(re.findall(r"^ *(?:class|def|service do|test do)\b", text, re.MULTILINE))
    assert len(re.findall(r"^ *end$", text, re.MULTILINE)) == opened
    if shutil.which("ruby"):
        path = tmp_path / "kpybroker.rb"
        path.write_text(text)
        run("ruby", "-c", path)
    with pytest.raises(SystemExit, match="is not an https URL"):
        homebrew.formula(sdist, "http://example.org/x")


# Helm


def rendered(**values: Any) -> list[dict[str, Any]]:
    """The manifests of the chart, by helm where it is installed, else by `render`."""
    settings = {**yaml.safe_load((CHART / "values.yaml").read_text()), **values}
    if shutil.which("helm"):
        text = run("helm", "template", "kafka", CHART, "--namespace", "streams", "--set-json", _json_values(values))
    else:
        text = "\n---\n".join(
            render(path.read_text(), settings) for path in sorted((CHART / "templates").glob("*.yaml"))
        )
    return [each for each in yaml.safe_load_all(text) if each]


def _json_values(values: dict[str, Any]) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in values.items()) or "unused=0"


TAG = re.compile(r"(?:\n? *\{\{- |\{\{ )(.*?) ?\}\}")


def render(template: str, values: dict[str, Any]) -> str:
    """A template with the few forms that the chart uses: values, if, range, quote, default, toYaml."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {
        "Values": values,
        "Release": {"Name": "kafka", "Namespace": "streams"},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    parts = TAG.split(template)
    text, rest = _block(parts, scope, {})
    assert not rest
    return text


def _block(parts: list[str], scope: dict[str, Any], names: dict[str, Any]) -> tuple[str, list[str]]:
    """The text up to the end of a block, and what is behind it."""
    made = parts[0]
    rest = parts[1:]
    while rest:
        tag, after = rest[0], rest[1:]
        if tag == "end":
            return made, after
        word, _, argument = tag.partition(" ")
        if word == "if":
            inner, behind = _block(after, scope, names)
            made += inner if _value(argument, scope, names) else ""
        elif word == "range":
            variables, _, source = argument.partition(" := ")
            items = _value(source, scope, names)
            pairs = items.items() if isinstance(items, dict) else [(each, each) for each in items]
            behind = _block(after, scope, {**dict.fromkeys(re.findall(r"\$\w+", variables), 0), **names})[1]
            for key, value in pairs:
                bound = dict(zip(re.findall(r"\$\w+", variables), (key, value), strict=False))
                made += _block(after, scope, {**names, **bound})[0]
        else:
            made += str(_value(tag, scope, names))
            made += after[0]
            rest = after[1:]
            continue
        made += behind[0] if behind else ""
        rest = behind[1:]
    return made, []


def _value(expression: str, scope: dict[str, Any], names: dict[str, Any]) -> Any:
    expression, *filters = [part.strip() for part in expression.split(" | ")]
    value = _plain(expression, scope, names)
    for each in filters:
        word, _, argument = each.partition(" ")
        if word == "quote":
            value = json.dumps(str(value))
        elif word == "default":
            value = value or _plain(argument, scope, names)
        elif word == "nindent":
            value = "\n" + "\n".join(" " * int(argument) + line for line in str(value).splitlines())
        else:
            pytest.fail(f"the chart uses {each}: teach it to this renderer")
    return value


def _plain(expression: str, scope: dict[str, Any], names: dict[str, Any]) -> Any:
    if found := re.fullmatch(r"until \(int (\S+)\)", expression):
        return range(int(_plain(found[1], scope, names)))
    if found := re.fullmatch(r"add (\S+) (\d+)", expression):
        return _plain(found[1], scope, names) + int(found[2])
    if expression.startswith("toYaml "):
        return yaml.safe_dump(_plain(expression.removeprefix("toYaml "), scope, names))
    if expression in names:
        return names[expression]
    path = re.fullmatch(r"\$?\.(\w+(?:\.\w+)*)", expression)
    assert path is not None, f"the chart uses {expression}: teach it to this renderer"
    value: Any = scope
    for name in path[1].split("."):
        value = value[name]
    return value


def only(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def test_the_chart_renders_to_a_stateful_set_that_knows_its_quorum() -> None:
    manifests = rendered()
    nodes = only(manifests, "StatefulSet")["spec"]
    (container,) = nodes["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert nodes["replicas"] == 3
    assert variables["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",") == [
        f"{number + 1}@kafka-{number}.kafka-nodes.streams.svc:9093" for number in range(3)
    ]
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["image"] == f"kpybroker:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"
    (claim,) = nodes["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]
    assert variables["KAFKA_LOG_DIRS"].startswith(container["volumeMounts"][0]["mountPath"])
    labels = nodes["template"]["metadata"]["labels"]
    for each in manifests:
        selector = each["spec"].get("selector") if each["kind"] != "ConfigMap" else None
        assert selector is None or (selector.get("matchLabels", selector)).items() <= labels.items()
    headless = next(each for each in manifests if each["kind"] == "Service" and each["spec"].get("clusterIP") == "None")
    assert headless["metadata"]["name"] == nodes["serviceName"]
    assert only(manifests, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert not [each for each in manifests if each["kind"] == "PodMonitor"]


@pytest.mark.parametrize(("ordinal", "roles"), [(0, "broker,controller"), (3, "broker")])
def test_a_pod_knows_its_node_by_its_ordinal(tmp_path: Path, ordinal: int, roles: str) -> None:
    """The script of a pod, with a stand-in for the image's program, and its configuration as a broker takes it."""
    manifests = rendered(nodes=4, storage={"size": "1Gi", "className": "fast"}, podMonitor={"enabled": True})
    files = only(manifests, "ConfigMap")["data"]
    run_it = tmp_path / "run"
    run_it.write_text("#!/bin/sh\nenv\n")
    run_it.chmod(0o755)
    script = tmp_path / "start.sh"
    script.write_text(files["start.sh"].replace("/etc/kafka/docker/run", str(run_it)))
    (container,) = only(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    said = run("sh", script, POD_NAME=f"kafka-{ordinal}", **given)
    variables = dict(line.split("=", 1) for line in said.splitlines() if line.startswith("KAFKA_"))
    assert variables["KAFKA_NODE_ID"] == str(ordinal + 1)
    assert variables["KAFKA_PROCESS_ROLES"] == roles
    properties = tmp_path / "server.properties"
    properties.write_text(files["server.properties"])
    written = run(sys.executable, "-m", "kpybroker.config", properties, **variables)
    properties.write_text(written)
    config = BrokerConfig.load(properties)
    assert config.node_id == ordinal + 1
    assert config["min.insync.replicas"] == 2
    assert str(config.listeners[0]) == "PLAINTEXT://0.0.0.0:9092"
    assert f"kafka-{ordinal}.kafka-nodes.streams.svc:9092" in written
    assert only(manifests, "PodMonitor")["spec"]["podMetricsEndpoints"] == [{"port": "metrics", "path": "/metrics"}]
    (claim,) = only(manifests, "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


# Bill of materials, and the wheels of other machines


def test_the_bill_of_materials_has_every_dependency_with_its_version(wheels: list[Path]) -> None:
    made = sbom.document(wheels[:1])
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made == sbom.document(wheels[:1])
    names = {each["name"] for each in made["components"]}
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[<>=; ]", each)[0] for each in asked} <= names
    (file,) = made["metadata"]["component"]["components"]
    assert file["hashes"][0]["content"] == hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    references = {each["bom-ref"] for each in (made["metadata"]["component"], *made["components"])}
    assert {each["ref"] for each in made["dependencies"]} == references
    assert {need for each in made["dependencies"] for need in each["dependsOn"]} <= references
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", made["serialNumber"])


def test_wheels_are_compiled_for_every_python_and_machine_that_is_promised() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp3{minor}-*" for minor in (11, 12, 13, 14)]
    assert settings["environment"]["KPYBROKER_COMPILE"] == settings["macos"]["environment"]["KPYBROKER_COMPILE"] == "1"
    assert set(settings["linux"]["archs"]) == {"x86_64", "aarch64"}
    assert {name for name in settings["linux"] if name.startswith("musllinux")}
