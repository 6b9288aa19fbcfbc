"""``kubewright restore-member``: the steps of a pod that puts a snapshot into the volume of an etcd.

The controllers make such pods; no user calls it, so no help lists it.

Called by    ``app``; the work is in ``controlplanes.hosting.pods.restoring``.
"""

from pathlib import Path
from typing import Annotated

import typer

from kubewright.base.errors import InvalidInput

app = typer.Typer(
    help="Put a snapshot into the volume of an etcd, in a pod that the controllers make.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Folder = Annotated[Path, typer.Option(help="Where the snapshot and the new data are.")]


@app.command()
def receive(
    *,
    folder: Folder,
    listen: Annotated[str, typer.Option(help="On which host and port.", metavar="HOST:PORT")],
    cert_file: Annotated[Path, typer.Option(help="The certificate of the member.")],
    key_file: Annotated[Path, typer.Option(help="Its key.")],
    trusted_ca_file: Annotated[Path, typer.Option(help="The authority of those who may send.")],
) -> None:
    """Wait until the controllers have sent a snapshot."""
    import asyncio

    from kubewright.controlplanes.hosting.pods import restoring

    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise InvalidInput(f"--listen: {listen} has no port")
    site = restoring.Site(host.strip("[]"), int(port), cert_file, key_file, trusted_ca_file)
    asyncio.run(restoring.receive(site, folder))


@app.command()
def place(
    *,
    folder: Folder,
    data: Annotated[Path, typer.Option(help="The data that is replaced.")],
    mark: Annotated[str, typer.Option(help="Of this replacement.")],
) -> None:
    """Put the new data in the place of the former."""
    from kubewright.controlplanes.hosting.pods import restoring

    restoring.place(folder, data, mark)
