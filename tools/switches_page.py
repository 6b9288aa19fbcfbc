"""List the switches of ``kubewright run``: docs/reference/switches.md, from the command and ``cli.run.mcm``.

Called by    ``gen``.
"""

from collections.abc import Iterator, Mapping

import typer

from kubewright.cli.app import app
from kubewright.cli.run.mcm import BY_NAME, SWITCHES, Program, Switch

HEAD = """# The switches of `kubewright run`

Generated from `src/kubewright/cli/run` by `make gen`. Durations are Go's (`90s`, `1h30m`); a boolean switch
may be written as `--leader-elect=false`, too. `--config FILE` reads switches from a YAML file, by their names
without dashes (`machine-health-timeout: 5m`); what stands on the command line goes before it.
"""
OURS = """
## Kubewright's own, and those of both

"""
MCM = """
## Those of machine-controller-manager and machine-controller

Kubewright accepts the command lines of Gardener's two programs. Where it has nothing to set, it logs a
warning that says why. One process does the work of both programs; `--controllers` chooses.

"""
DIFFERENT = """
Four defaults differ: `--namespace` is every namespace instead of `default`; the switches of Leases leave more
time, since each renewal is a write; VMs without machines are looked for each 30 minutes instead of 15; and
`--concurrent-syncs` is 100, since no worker waits for a cloud or a drain.

With `--machine-retry-all-errors=false` a call that failed with an error whose "Auto Retry" is N in MCM's
tables waits for a change: of the `spec` of the machine, of anything but the metadata of its MachineClass, or
of anything in a Secret of that. Where the cloud was mended, such as by a higher quota, none of these has
changed. Annotate the Secret then, and all machines of its classes are tried again at once; or restart the
process. A single machine is tried again after a change of its `spec`, such as another `creationTimeout`:

```console
$ kubectl annotate secret my-secret retried="$(date)" --overwrite
```
"""


def files() -> Mapping[str, str]:
    """The page, by its name."""
    parts = (HEAD, OURS, "\n".join(_own()), "\n", MCM, "\n".join(_of_mcm()), "\n", DIFFERENT)
    return {"switches.md": "".join(parts)}


def _own() -> Iterator[str]:
    yield "| switch | default | what it does |"
    yield "|---|---|---|"
    commands = vars(typer.main.get_command(app))["commands"]
    for each in commands["run"].params:
        name = (each.name or "").replace("_", "-")
        if name in BY_NAME or name == "help":
            continue
        default = "" if each.default in (None, "", False) else f"`{_shown(each.default)}`"
        words = ", ".join(f"`{word}`" for word in each.opts)
        yield f"| {words} | {default} | {each.help} |"


def _of_mcm() -> Iterator[str]:
    yield "| switch | of | default | what it does here |"
    yield "|---|---|---|---|"
    for each in SWITCHES:
        of = "both" if each.of is Program.BOTH else each.of.value
        yield f"| `--{each.name}` | {of} | {each.default and f'`{each.default}`'} | {_effect(each)} |"


def _effect(switch: Switch) -> str:
    if switch.unused:
        return f"nothing: {switch.unused}"
    if switch.only:
        return f"only {', '.join(f'`{each}`' for each in switch.only)}: {switch.instead}"
    return switch.help


def _shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
