"""Libraries of others as programs of ours in Go: YAML, Container Linux Configs, conversions of Cluster API.

Theory.      ``goyaml`` answers what sigs.k8s.io/yaml, with which Kubernetes reads, and gopkg.in/yaml.v2 and
             v3 make of texts. ``clct`` answers what Cluster API makes of Container Linux Configs: it calls
             the transpiler as Cluster API does. ``conversions`` answers what the webhooks of Cluster API
             v1.14 make of objects. Each gets a JSON list and answers with a list.
Invariants.  No text is written anywhere, and a call has a deadline.
Called by    tools/kube/install.py, tests/conformance.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubewright.testing.real_kubernetes.cached import Cached

VERSION = "v1"
"""Of our programs: to be raised with the versions in their go.mod, or with what they answer."""

GO_YAML, CLCT = Cached("goyaml", VERSION), Cached("clct", VERSION)
CONVERSIONS = Cached("conversions", "v1.14.2")
"""The version is that of Cluster API."""
LIBRARIES = ("sigs", "v2", "v3")
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Transpiled:
    """What Cluster API makes of a Container Linux Config.

    ``config``   Ignition 2.3; None if the transpiler refuses the text
    ``entries``  how many remarks it has; with any of them Cluster API refuses a text that is to be strict
    ``report``   the remarks, for people
    """

    config: Mapping[str, Any] | None
    entries: int
    report: str


def read(program: Path, texts: Sequence[str]) -> list[Mapping[str, Any]]:
    """What each of ``LIBRARIES`` reads in each text: a value, or an ``Exception`` with its words.

    Of ``v2`` and ``v3`` text stays text, and all else is ``{"!": its type in Go}``.
    """
    return [
        {
            name: ValueError(found["error"]) if "error" in found else found["value"]
            for name, found in each.items()
        }
        for each in _asked(program, texts)
    ]


def transpiled(program: Path, texts: Sequence[str]) -> list[Transpiled]:
    """What becomes of Container Linux Configs."""
    return [
        Transpiled(each.get("config"), each["entries"], each["report"]) for each in _asked(program, texts)
    ]


def converted(program: Path, objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each object in its other version.

    Raises:
        ValueError: one cannot be converted, and why.
    """
    answers = _asked(program, objects)
    if errors := [each["error"] for each in answers if "error" in each]:
        raise ValueError("; ".join(errors))
    return [each["object"] for each in answers]


def _asked(program: Path, texts: Sequence[Any]) -> list[Any]:
    done = subprocess.run(
        [program], input=json.dumps(list(texts)), capture_output=True, text=True, timeout=SECONDS, check=True
    )
    found: list[Any] = json.loads(done.stdout)
    return found
