"""MCM's integration test for drivers: ten cases against two clusters that exist already.

Theory.      ``driver_conformance`` asks a driver through its port; this asks a whole manager with a driver
             what its users ask: machines and deployments are made, scaled, rolled and deleted through the
             API, and the nodes in the target cluster are counted. So it is not a part of the test kit: a
             command runs it, on real clusters, with any manager that serves ``machine.sapcloud.io``.
Files        ``expectations``  what is waited for, and what is missing until then (pure)
             ``classes``       the classes: from files, or copies of one (pure)
             ``report``        how the cases ended, and JUnit (pure)
             ``bench``         clients of both clusters, and waiting; what each case gets
             ``cases``         the ten cases
             ``tracker``       what is left in the cloud
             ``managers``      the manager under test, started here or running already
             ``furnish``       kinds, classes, Secrets; a seed's manager at rest
             ``cleaning``      all of it undone
             ``extensions``    cases and trackers of other authors
             ``run``           the whole test
Source       ITS-01 to ITS-10.
Called by    ``cli.driver``.
"""

from kubewright.integration.bench import Bench, CaseFailed, Limits, Settings, Skipped
from kubewright.integration.cases import Case
from kubewright.integration.expectations import Answer, View
from kubewright.integration.tracker import ResourcesTracker

__all__ = [
    "Answer",
    "Bench",
    "Case",
    "CaseFailed",
    "Limits",
    "ResourcesTracker",
    "Settings",
    "Skipped",
    "View",
]
