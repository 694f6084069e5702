"""The Helm chart: nodes find one another, a node takes the configuration, and every value has an effect.

helm renders it. Where it is neither installed nor built (`make helm`), these tests are skipped.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from chart import (
    CHART,
    Manifests,
    Refused,
    ask_helm,
    by_helm,
    defaults,
    merged,
    rendered,
    values_of,
)
from sources import ROOT

from kpybroker.config.broker import BrokerConfig

EXAMPLES = sorted((CHART / "ci").glob("*-values.yaml"))
NODES = [pytest.param({}, id="defaults"), *(pytest.param(values_of(path), id=path.stem) for path in EXAMPLES)]
OTHER_VALUES: dict[str, Any] = {
    "nodes": 4,
    "controllers": 1,
    "clusterId": "MkU3OEVBNTcwNTJENDM2Qg",
    "image.repository": "elsewhere",
    "image.tag": "1.2.3",
    "image.pullPolicy": "Never",
    "config": {"num.partitions": 7},
    "storage.size": "1Gi",
    "storage.className": "fast",
    "resources.requests.cpu": "2",
    "resources.requests.memory": "1Gi",
    "resources.limits.memory": "2Gi",
    "podMonitor.enabled": True,
    "terminationGracePeriodSeconds": 61,
}
"""For each value of the chart another one."""
REFUSED = [
    pytest.param({"nodes": 1, "controllers": 3}, "controllers must not be more than nodes", id="controllers"),
    pytest.param(
        {"nodes": 2, "controllers": 1}, "replication.factor must not be more than nodes: it is 3", id="replication"
    ),
]
OUT_OF_SCHEMA = [{"controllers": 2}, {"clusterId": "short"}, {"nodse": 3}, {"image": {"name": "x"}}, {"nodes": 0}]


def only(manifests: Manifests, kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def container_of(manifests: Manifests) -> dict[str, Any]:
    (found,) = only(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    """``a.b`` as helm's --set reads it."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def leaves(values: dict[str, Any], before: str = "") -> set[str]:
    """The paths of all values; the configs of brokers count as one."""
    found: set[str] = set()
    for name, value in values.items():
        path = f"{before}{name}"
        found |= leaves(value, f"{path}.") if isinstance(value, dict) and path != "config" else {path}
    return found


def lines_of(properties: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in properties.splitlines())


# The cluster


@pytest.mark.parametrize("values", NODES)
def test_nodes_find_one_another_and_clients_find_the_nodes(values: dict[str, Any]) -> None:
    manifests, wanted = rendered(values), merged(defaults(), values)
    nodes = only(manifests, "StatefulSet")["spec"]
    assert nodes["replicas"] == wanted["nodes"]
    variables = {each["name"]: each.get("value") for each in container_of(manifests)["env"]}
    assert variables["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",") == [
        f"{number + 1}@kafka-{number}.kafka-nodes.streams.svc:9093" for number in range(wanted["controllers"])
    ]
    assert variables["CLUSTER_ID"] == wanted["clusterId"]
    headless, clients = sorted(
        (each for each in manifests if each["kind"] == "Service"), key=lambda each: "clusterIP" not in each["spec"]
    )
    assert headless["metadata"]["name"] == nodes["serviceName"]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"], "a quorum is elected before a node is ready"
    assert clients["metadata"]["name"] == "kafka"
    served = {each["name"]: each["containerPort"] for each in container_of(manifests)["ports"]}
    assert served == {"kafka": 9092, "controller": 9093, "metrics": 9404}
    for service in (headless, clients):
        assert {each["name"]: each["port"] for each in service["spec"]["ports"]}.items() <= served.items()
    assert nodes["podManagementPolicy"] == "Parallel", "a quorum waits for its majority"
    labels = nodes["template"]["metadata"]["labels"]
    for each in manifests:
        selector = each["spec"].get("selector") if each["kind"] != "ConfigMap" else None
        assert selector is None or (selector.get("matchLabels", selector)).items() <= labels.items()
    assert only(manifests, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    monitors = [each["spec"]["podMetricsEndpoints"] for each in manifests if each["kind"] == "PodMonitor"]
    assert monitors == [[{"port": "metrics", "path": "/metrics"}]] * wanted["podMonitor"]["enabled"]


def test_a_pod_is_what_the_image_is_made_for() -> None:
    container, image = container_of(rendered()), (ROOT / "docker" / "Dockerfile").read_text()
    pod = only(rendered(), "StatefulSet")["spec"]["template"]["spec"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "metrics"}
    assert f"useradd --uid {pod['securityContext']['runAsUser']} " in image
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"], "who runs may write the volume"
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"], "its variables KAFKA_PORT... would be read as configs"
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert f"VOLUME {mounts['data']}\n" in image
    assert f"{mounts['config']}/server.properties" in (ROOT / "docker" / "kafka" / "configure").read_text()
    assert "0.0.0.0:9404" in (ROOT / "docker" / "kafka" / "launch").read_text()
    assert container["command"] == ["/bin/sh", f"{mounts['config']}/start.sh"]
    (claim,) = only(rendered(), "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    assert container["image"] == f"kpybroker:{values_of(CHART / 'Chart.yaml')['appVersion']}"


@pytest.mark.parametrize("values", NODES)
@pytest.mark.parametrize("of_the_last", [False, True], ids=["first", "last"])
def test_a_node_takes_what_its_pod_tells_it(values: dict[str, Any], of_the_last: bool, tmp_path: Path) -> None:
    """The script of a pod, with a stand-in for the image's program, and its configuration as a broker takes it."""
    manifests, wanted = rendered(values), merged(defaults(), values)
    ordinal = wanted["nodes"] - 1 if of_the_last else 0
    files = only(manifests, "ConfigMap")["data"]
    run_it, script, properties = tmp_path / "run", tmp_path / "start.sh", tmp_path / "server.properties"
    run_it.write_text("#!/bin/sh\nenv\n")
    run_it.chmod(0o755)
    script.write_text(files["start.sh"].replace("/etc/kafka/docker/run", str(run_it)))
    given = {each["name"]: each["value"] for each in container_of(manifests)["env"] if "value" in each}
    reported = output("sh", script, POD_NAME=f"kafka-{ordinal}", PATH="/usr/bin:/bin", **given)
    variables = {name: value for name, value in lines_of(reported).items() if name.startswith("KAFKA_")}
    properties.write_text(files["server.properties"])
    written = output(sys.executable, "-m", "kpybroker.config", properties, **variables)
    properties.write_text(written)
    config = BrokerConfig.load(properties)
    assert not config.warnings
    assert config.node_id == ordinal + 1
    is_controller = ordinal < wanted["controllers"]
    assert config["process.roles"] == (("broker", "controller") if is_controller else ("broker",))
    assert str(config.listeners[0]) == "PLAINTEXT://0.0.0.0:9092"
    assert lines_of(written)["advertised.listeners"] == f"PLAINTEXT://kafka-{ordinal}.kafka-nodes.streams.svc:9092"
    asked = merged(defaults(), values)["config"]
    assert {key: config[key] for key in asked} == {key: as_typed(config[key], value) for key, value in asked.items()}


def as_typed(like: Any, value: Any) -> Any:
    """A value of the chart in the type that the broker has for it."""
    return value if isinstance(like, bool) else type(like)(value)


def output(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
    return done.stdout


# Values


def test_every_value_has_an_effect_and_a_test() -> None:
    assert leaves(defaults()) == set(OTHER_VALUES)
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.([\w.]+)", templates))
    assert used == {each for each in used if any(leaf == each or leaf.startswith(f"{each}.") for leaf in OTHER_VALUES)}
    before = rendered()
    for path, value in OTHER_VALUES.items():
        assert rendered(nested(path, value)) != before, path


@pytest.mark.parametrize(("values", "reason"), REFUSED)
def test_a_cluster_that_cannot_be_is_one_line(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=re.escape(reason)):
        rendered(values)


def test_the_schema_takes_what_can_be_and_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    valid = jsonschema.Draft7Validator(schema).is_valid
    assert valid(defaults())
    assert all(valid(merged(defaults(), values_of(path))) for path in EXAMPLES)
    assert all(valid(merged(defaults(), nested(path, value))) for path, value in OTHER_VALUES.items())
    assert not [each for each in OUT_OF_SCHEMA if valid(merged(defaults(), each))]


@pytest.mark.parametrize("values", NODES)
def test_kubernetes_knows_every_field(values: dict[str, Any]) -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate is not installed (make kubernetes): Kubernetes' definitions are not asked")
    import kubernetes_validate

    for manifest in rendered(values):
        if manifest["kind"] != "PodMonitor":  # its definition belongs to Prometheus' operator
            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


# helm itself


def test_helm_finds_nothing_to_mend() -> None:
    for path in (None, *EXAMPLES):
        reported = ask_helm("lint", "--strict", CHART, *(("--values", path) if path else ()))
        assert "0 chart(s) failed" in reported
        assert "[WARNING]" not in reported


def test_helm_takes_every_value_from_its_command_line() -> None:
    before = by_helm()
    for path, value in OTHER_VALUES.items():
        assert by_helm("--set-json", f"{path}={json.dumps(value)}") != before, path
    (line,) = re.findall(
        r"num\.partitions=.*",
        only(by_helm("--set", r"config.num\.partitions=6"), "ConfigMap")["data"]["server.properties"],
    )
    assert line == "num.partitions=6"


def test_helm_refuses_what_the_schema_or_the_chart_refuses() -> None:
    for values in OUT_OF_SCHEMA:
        with pytest.raises(Refused, match="don't meet the specifications of the schema"):
            by_helm(*sets(values))
    for each in REFUSED:
        values, reason = each.values
        with pytest.raises(Refused, match=re.escape(str(reason))):
            by_helm(*sets(values))


def sets(values: Any) -> list[str]:
    return [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]


def test_the_packaged_chart_holds_no_example(tmp_path: Path) -> None:
    ask_helm("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("kpybroker-*.tgz")
    shutil.unpack_archive(package, tmp_path)
    assert not (tmp_path / "kpybroker" / "ci").exists()
    assert (tmp_path / "kpybroker" / "values.schema.json").exists()
