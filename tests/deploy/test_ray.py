"""deploy/ray-cluster.yaml and deploy/kuberay.yaml: whole, and agreeing with what `attar serve --ray` expects."""

import copy
import json
import re
from importlib.resources import files

import pytest
import yaml

jsonschema = pytest.importorskip("jsonschema", reason="comes with Ray")


@pytest.fixture(scope="module")
def cluster(root):
    return yaml.safe_load((root / "deploy" / "ray-cluster.yaml").read_text())


@pytest.fixture(scope="module")
def kuberay(root):
    return list(yaml.safe_load_all((root / "deploy" / "kuberay.yaml").read_text()))


def test_the_cluster_fits_the_schema_of_ray(cluster):
    pytest.importorskip("ray", reason="the extra ray")
    schema = json.loads((files("ray") / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["provider"]["type"] == "local"
    assert len(cluster["provider"]["worker_ips"]) == cluster["max_workers"]


def test_every_machine_names_its_shards_and_needs_the_token(cluster):
    commands = [cluster[f"{kind}_start_ray_commands"][-1] for kind in ("head", "worker")]
    for command in commands:
        assert '--resources="$(cat /etc/attar/resources.json)"' in command
        assert "RAY_AUTH_MODE=token" in command
        assert "--disable-usage-stats" in command


def test_the_comment_of_the_cluster_is_a_command(root, serve_options):
    comment = (root / "deploy" / "ray-cluster.yaml").read_text()
    words = re.search(r"`attar serve ([^`]+)`", comment)[1].split()
    options = serve_options(words)
    assert (options["ray"], options["host"]) == ("auto", "0.0.0.0")


def test_the_manifest_is_a_ray_cluster_and_a_service(kuberay):
    cluster, service = kuberay
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        mounted = {mount["name"] for each in pod["containers"] for mount in each.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert container["image"] == "attar-ray"
            assert container["resources"]["limits"]["memory"]
            assert {"name": "RAY_AUTH_MODE", "value": "token"} in container["env"]
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        # KubeRay names Ray's container by its place: the first.
        assert group["template"]["spec"]["containers"][0]["name"] == "ray-worker"
    assert service["spec"]["selector"] == {
        "ray.io/cluster": cluster["metadata"]["name"],
        "ray.io/node-type": "head",
    }


@pytest.fixture(scope="module")
def schema(root):
    read = json.loads((root / "tests" / "deploy" / "raycluster.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(read)
    return jsonschema.Draft202012Validator(read)


def test_the_manifest_fits_the_schema_of_kuberay(kuberay, schema):
    assert [fault.message for fault in schema.iter_errors(kuberay[0])] == []


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        ("spec.headGroupSpecs", {}, "'headGroupSpecs' was unexpected"),
        ("spec.headGroupSpec.replicas", 1, "'replicas' was unexpected"),
        ("spec.headGroupSpec.rayStartParams.num-cpus", 0, "0 is not of type 'string'"),
        ("spec.headGroupSpec.template", None, "'template' is a required property"),
        ("spec.workerGroupSpecs.0.groupName", None, "'groupName' is a required property"),
        ("spec.workerGroupSpecs.0.replicas", "1", "'1' is not of type 'integer'"),
        ("spec.workerGroupSpecs.0.maxReplica", 1, "'maxReplica' was unexpected"),
        ("spec.workerGroupSpecs.0.template.spec.containers", [], "[] should be non-empty"),
        (
            "spec.workerGroupSpecs.0.template.spec.containers.0.environment",
            [],
            "'environment' was unexpected",
        ),
        ("spec.workerGroupSpecs.0.template.spec.containers.0.env.0.value", True, "True is not of type"),
        ("spec.workerGroupSpecs.0.template.spec.volumes.0.pvc", {}, "'pvc' was unexpected"),
        ("kind", "RayService", "'RayCluster' was expected"),
    ],
)
def test_the_schema_refuses_what_kuberay_would(kuberay, schema, path, value, part):
    wrong = copy.deepcopy(kuberay[0])
    *parents, last = path.split(".")
    place = wrong
    for each in parents:
        place = place[int(each) if isinstance(place, list) else each]
    if value is None:
        del place[last]
    else:
        place[last] = value
    assert any(part in fault.message for fault in schema.iter_errors(wrong))


def test_each_worker_has_the_folder_of_its_shard(kuberay, serve_options):
    groups = kuberay[0]["spec"]["workerGroupSpecs"]
    server = kuberay[0]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][1]
    options = serve_options(server["args"][1:])
    for number, group in enumerate(groups):
        # A string within a string: KubeRay passes it on to a shell.
        assert json.loads(json.loads(group["rayStartParams"]["resources"])) == {f"attar-shard-{number}": 1}
        (mount,) = group["template"]["spec"]["containers"][0]["volumeMounts"]
        assert mount["mountPath"] == f"{options['store']}/shard-{number:05d}"
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert mounts["manifest"] == str(options["store"])
    assert str(options["token_file"]).startswith(mounts["token"])
    assert options["port"] == server["ports"][0]["containerPort"]
    assert options["ray"] == "auto"
