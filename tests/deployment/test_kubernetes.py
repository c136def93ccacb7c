"""deploy/kubernetes starts what compose.yaml starts, with no more keys, rights and ways; and clusters take it."""

import re
import shutil
import subprocess
from ipaddress import IPv4Network

import kubernetes_validate
import pytest
import yaml

from tests.deployment import ways
from tests.deployment.test_ways import seconds
from tests.deployment.ways import OPTIONAL, PROCESSES
from tests.documents.pages import ROOT

LINES = ("release", *PROCESSES, OPTIONAL)


def containers_of_kubernetes():
    pods = {name: one["spec"]["template"]["spec"] for name, one in ways.workloads().items()}
    assert all(len(pod["containers"]) == 1 for pod in pods.values())
    return {name: (pod, pod["containers"][0]) for name, pod in pods.items()}


def test_kubernetes_starts_every_process_as_compose_does():
    services, found = ways.compose()["services"], containers_of_kubernetes()

    assert found.keys() == {*LINES, "manage"}
    for name in LINES:
        pod, container = found[name]
        assert (container["args"], "command" in container) == (services[name]["command"], False)
        assert name == "release" or pod["terminationGracePeriodSeconds"] == seconds(services[name]["stop_grace_period"])
        for probe in ("startupProbe", "livenessProbe"):
            assert name == "release" or container[probe]["exec"]["command"] == services[name]["healthcheck"]["test"][1:]
    workloads = ways.workloads()
    assert (workloads["beat"]["spec"]["replicas"], workloads["beat"]["spec"]["strategy"]["type"]) == (1, "Recreate")
    assert [workloads[name]["spec"]["replicas"] for name in (OPTIONAL, "manage")] == [0, 0]
    assert (workloads["release"]["kind"], workloads["release"]["spec"]["backoffLimit"]) == ("Job", 0)


def test_kubernetes_gives_each_process_the_secret_of_its_type_alone_and_as_much_memory_as_compose_does():
    services = ways.compose()["services"]
    for name, (_, container) in containers_of_kubernetes().items():
        (file,) = services[name]["env_file"]
        assert container["envFrom"] == [{"secretRef": {"name": f"allowance-{file[4:-4]}"}}]
        assert not {"env", "volumeDevices"} & container.keys()
        assert [one["name"] for one in container["volumeMounts"]] == ["tmp"]
        limit = services[name]["deploy"]["resources"]["limits"]["memory"]
        assert container["resources"]["limits"]["memory"] == limit.upper().replace("M", "Mi").replace("G", "Gi")


def test_kubernetes_lets_no_process_do_more_than_it_needs():
    user = int(dict(ways.dockerfile())["USER"].split(":")[0])
    for pod, container in containers_of_kubernetes().values():
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert [one["emptyDir"]["medium"] for one in pod["volumes"]] == ["Memory"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()


# What compose.yaml calls the networks that policies stand for.
_NETWORKS = {
    "front": {"front"},
    "data": {"data", "data-of-webhooks"},
    "nodes": {"nodes", "world"},
    "payees": {"payees"},
}


def test_kubernetes_lets_each_process_reach_what_its_networks_in_compose_lead_to():
    policies = {
        one["metadata"]["name"].removeprefix("allowance-"): one["spec"]
        for one in ways.kubernetes()
        if one["kind"] == "NetworkPolicy"
    }
    closed = policies.pop("closed")
    assert (closed["podSelector"], closed["ingress"]) == ({"matchLabels": {"app.kubernetes.io/name": "allowance"}}, [])
    assert {port["port"] for rule in closed["egress"] for port in rule["ports"]} == {53}
    services = ways.compose()["services"]
    for network, of_compose in _NETWORKS.items():
        wanted = {name for name in (*LINES, "manage") if of_compose & {*services[name]["networks"]}}
        assert members(policies.pop(network)["podSelector"]) == wanted, network
    assert policies == {}


def members(selector):
    component = "app.kubernetes.io/component"
    named = {selector["matchLabels"][component]} if component in selector["matchLabels"] else set()
    return named | {name for one in selector.get("matchExpressions", ()) for name in one["values"]}


def test_kubernetes_keeps_webhooks_from_every_private_address():
    (out,) = (one for one in ways.kubernetes() if one["metadata"]["name"] == "allowance-payees")
    (v4, v6) = (one["ipBlock"] for rule in out["spec"]["egress"] for one in rule["to"])
    refused = [IPv4Network(one) for one in v4["except"]]
    for network in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"):
        assert any(IPv4Network(network).subnet_of(one) for one in refused)
    assert (v4["cidr"], v6) == ("0.0.0.0/0", {"cidr": "2000::/3"})


@pytest.mark.parametrize("version", ["1.31", kubernetes_validate.latest_version()])
def test_kubernetes_takes_every_object_by_its_schema(version):
    found = ways.kubernetes()

    assert len(found) > len(LINES)
    for one in found:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed here")
def test_kubectl_makes_of_the_kustomization_what_a_cluster_takes():
    made = subprocess.run(["kubectl", "kustomize", str(ways.KUBERNETES)], check=True, capture_output=True, text=True)

    found = list(yaml.safe_load_all(made.stdout))
    assert len(found) == len(ways.kubernetes())
    for one in found:
        kubernetes_validate.validate(one, "1.31", strict=True)
        assert one["metadata"]["namespace"] == "allowance"
    (image,) = {
        container["image"]
        for one in found
        if "template" in one["spec"]
        for container in one["spec"]["template"]["spec"]["containers"]
    }
    assert image == "registry.example.com/allowance:latest"


def test_a_secret_of_kubernetes_has_the_values_that_a_shell_reads(tmp_path):
    page = (ROOT / "docs/operate/running.md").read_text()
    (reading,) = re.findall(r"(env --ignore-environment .*) \|\n", page)
    (tmp_path / "env").mkdir()
    (tmp_path / "env/web.env").write_text("SECRET_KEY='a & b'\nDATABASE_URL=postgres://a:b@c/d\n")

    done = subprocess.run(
        ["bash", "-c", f"name=web; {reading}"], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert sorted(done.stdout.splitlines()) == ["DATABASE_URL=postgres://a:b@c/d", "SECRET_KEY=a & b"]
