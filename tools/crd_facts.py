"""Write the tables of facts of a Go module's CRDs, which tests compare with ours.

Theory.      What has to be equal is committed as data without a word of the other project's: one table for
             each CRD, made by ``kubewright.testing.crd_facts``, which the test applies to our CRDs too.
Usage.       python tools/crd_facts.py sigs.k8s.io/cluster-api@v1.7.1 v1beta1 tests/unit/api/crd_facts NAME...
             where a name is that of a CRD (``machines.cluster.x-k8s.io``). The module comes from the cache of
             ``go``, or is fetched into it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kubewright.testing.crd_facts import facts


def crds(module: str) -> Iterator[dict[str, Any]]:
    """Every CRD in the YAML files of a module, ``path@version``."""
    command = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=600)
    for path in sorted(Path(json.loads(answer.stdout)["Dir"]).rglob("config/crd/bases/*.yaml")):
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if document and document.get("kind") == "CustomResourceDefinition":
                yield document


def main(module: str, version: str, folder: str, *names: str) -> int:
    missing = set(names)
    for crd in crds(module):
        name = crd["metadata"]["name"]
        if name in names:
            lines = [f"# {name} of {module}, by tools/crd_facts.py", *facts(crd, version)]
            (Path(folder) / f"{name}.txt").write_text("\n".join(lines) + "\n")
            missing.discard(name)
    for name in sorted(missing):
        print(f"no CRD {name} in {module}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
