"""The embedded server as other processes reach it: a Lease of ours is renewed before one of them uses it.

Theory.      Our controllers work under Leases, so that MCM and Cluster API wait for them when they use this
             server. A Lease has to change every few seconds, but only where a process looks, and every
             request of another process comes through here. So an idle ``up`` renews nothing, and each reader
             finds a Lease that was renewed within a period, whichever clock it judges that by.
Invariants.  A request for a Lease under which we lead is handled only when that Lease was renewed less than a
             period ago; when it cannot be renewed, the request is refused. A list or a watch is for all
             Leases that it could show. Requests of this process do not come through here.
Called by    ``embedded``. ``runtime.leader`` says why this excludes other processes as regular renewals do.
"""

import asyncio
from collections.abc import Sequence

from kubewright.api.core import LEASE
from kubewright.apiserver.http.answers import failure
from kubewright.apiserver.http.requests import ResourcePath, parse_path
from kubewright.runtime.leader import Elector
from kubewright.wire.errors import Unavailable
from kubewright.wire.gvk import Key
from kubewright.wire.http import Handler, Request, Response


class RenewalHandler:
    """A ``Handler`` that tells ``electors`` of each request for their Lease, and then passes it on."""

    def __init__(self, handler: Handler) -> None:
        self.electors: Sequence[Elector] = ()
        self._handler = handler

    async def handle(self, request: Request) -> Response:
        """Answer one request of another process."""
        path = parse_path(request.path)
        if path is not None and (path.group, path.plural) == (LEASE.resource.group, LEASE.resource.plural):
            concerned = [each for each in self.electors if _names(path, each.key)]
            ready = await asyncio.gather(*(each.renew_for_others() for each in concerned))
            if not all(ready):
                return failure(Unavailable("the leader cannot renew its lease", retry_after=1))
        return await self._handler(request)


def _names(path: ResourcePath, key: Key) -> bool:
    """Whether a request to this path may read or write this Lease; an empty part of a path means any."""
    return path.namespace in ("", key.namespace) and path.name in ("", key.name)
