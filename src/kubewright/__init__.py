"""Kubewright declares, makes, heals, rolls and retires Kubernetes machines.

Start with ARCHITECTURE.md: it follows one machine through the floors of this
package, from ``base`` (standard library only) up to ``cli``.
"""

__version__ = "0.1.0"
