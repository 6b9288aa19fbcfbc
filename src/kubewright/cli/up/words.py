"""The switches of ``kubewright up`` with their help.

Called by    ``app``, which must stay quick to import.
"""

from pathlib import Path
from typing import Annotated

import typer

from kubewright.cli.words import path_of

Port = Annotated[
    int | None,
    typer.Option(
        help="Port on loopback; 0 picks a free one. Default: the one of the last start.",
        metavar="N",
        min=0,
        max=65535,
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the kubeconfig; default: DIR/kubeconfig.",
        metavar="PATH",
        parser=path_of("--kubeconfig"),
    ),
]
MergeKubeconfig = Annotated[
    bool,
    typer.Option(
        "--merge-kubeconfig",
        help="Put a context into your own kubeconfig too ($KUBECONFIG, ~/.kube/config).",
    ),
]
Context = Annotated[str, typer.Option(help="Name of that context.", metavar="NAME")]
UseContext = Annotated[
    bool, typer.Option("--use-context", help="Make it the current one; else it is if there is none.")
]
