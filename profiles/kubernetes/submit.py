"""Submit a job's script as a Kubernetes Job, and print its name; needs kubectl and nothing else.

The volume is mounted where the project lies for whoever submits, so that all paths are the same in the pod. The pod is
given no environment but its image's, no token of the cluster, and one try.
"""

import argparse
import json
import subprocess
import uuid
from pathlib import Path


def manifest(given: argparse.Namespace, folder: str) -> dict[str, object]:
    """The Job."""
    name = f"dcpflow-{uuid.uuid4().hex[:16]}"
    amounts = {"cpu": str(given.cpus), "memory": f"{given.mem_mb}M"}
    container = {
        "name": "job",
        "image": given.image,
        "command": ["sh", given.script],
        "workingDir": folder,
        "resources": {"requests": amounts, "limits": {"memory": amounts["memory"]}},
        "volumeMounts": [{"name": "shared", "mountPath": given.mount}],
    }
    pod = {
        "restartPolicy": "Never",
        # of the pod, for which it counts from its start: a Job's own would count the time in the queue
        "activeDeadlineSeconds": 60 * given.minutes,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": given.claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "dcpflow"}},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {"app": "dcpflow"}}, "spec": pod},
        },
    }


def main() -> None:
    """Read what the profile and Snakemake say, and submit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True, help="with the shell and the libraries that .venv needs")
    parser.add_argument("--claim", required=True, help="the claim of a volume that many pods can write (ReadWriteMany)")
    parser.add_argument("--mount", required=True, help="where it lies for whoever submits, and in each pod")
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--mem-mb", type=int, required=True)
    parser.add_argument("--minutes", type=int, required=True)
    parser.add_argument("script")
    given = parser.parse_args()
    folder = str(Path.cwd())
    if not Path(folder).is_relative_to(given.mount):
        raise SystemExit(
            f"{folder} is not on the shared volume, which is mounted at {given.mount}: see docs/clusters.md"
        )
    job = json.dumps(manifest(given, folder))
    subprocess.run(
        ["kubectl", "create", "--filename=-", "--output=jsonpath={.metadata.name}"], input=job, text=True, check=True
    )


if __name__ == "__main__":
    main()
