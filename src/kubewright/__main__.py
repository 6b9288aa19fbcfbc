"""``python -m kubewright`` is the console script."""

from kubewright.cli import main

main()
