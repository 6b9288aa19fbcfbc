"""Subresources that are kinds of their own, and reviews: from request to answer.

Called by    ``app``, before ``resources``. Continues in ``registry.subresources``, where the rules are.
"""

from dataclasses import replace
from typing import Any

import orjson

from kubewright.apiserver.http import answers, requests
from kubewright.apiserver.registry import refusals, subresources
from kubewright.apiserver.registry.kind import Catalog, Options, Target
from kubewright.apiserver.registry.policies import Policies, restricted_node
from kubewright.apiserver.registry.reviews import settled
from kubewright.apiserver.registry.strategy import DeleteOptions, edit_of
from kubewright.apiserver.registry.tokens import Account, Tokens
from kubewright.apiserver.registry.writing import Edit, Writing
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, Store
from kubewright.base.clock import Clock
from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """Answers the requests for which ``serves`` returns true."""

    def __init__(
        self,
        store: Store,
        writing: Writing,
        catalog: Catalog,
        tokens: Tokens,
        policies: Policies,
        *,
        clock: Clock,
    ) -> None:
        self._store, self._writing, self._catalog = store, writing, catalog
        self._tokens, self._policies, self._clock = tokens, policies, clock

    def serves(self, target: Target, subresource: str) -> bool:
        if subresource:
            return subresource in ("scale", "eviction", "binding", "token")
        return target.kind.resource.kind in subresources.REVIEWS and not target.kind.custom

    async def serve(self, request: Request, target: Target, verb: str, subresource: str) -> Response:
        """The answer.

        Raises:
            ApiError
        """
        if subresource == "scale":
            return await self._scale(request, target, verb)
        if verb != "create" or (subresource and not target.namespace):
            raise refusals.not_allowed()
        match subresource:
            case "eviction":
                return await self._evict(request, target)
            case "binding":
                return await self._bind(request, target)
            case "token":
                return self._token(request, target)
        return self._review(request, target)

    async def _scale(self, request: Request, target: Target, verb: str) -> Response:
        kind = target.kind
        if verb == "get":
            return answers.plain(await settled(lambda: self._scale_of(target)), self._form(request))
        if verb not in ("update", "patch"):
            raise refusals.not_allowed()
        options = requests.options(request, "UpdateOptions")
        options.subresource = "scale"
        change = self._scale_change(request, target, verb)
        written = await self._writing.update(
            target, subresources.scaling(kind, change, patched=verb == "patch"), options
        )
        return answers.plain(subresources.scale_of(kind, orjson.loads(written.data)), self._form(request))

    async def _scale_of(self, target: Target) -> Object:
        return subresources.scale_of(target.kind, target.kind.decode(self._there(target)))

    def _scale_change(self, request: Request, target: Target, verb: str) -> Edit:
        content_type = request.headers.get("content-type", "")
        if verb == "patch":
            media = requests.media_type(content_type)
            patch = requests.read_patch(request.body) if media.endswith("+json") else None
            return edit_of(target.kind, media, patch)
        sent = requests.read(request.body, content_type, "Scale")
        if sent.get("kind", "Scale") != "Scale":
            raise BadRequest(f"the body must be a Scale, not a {sent['kind']}")
        return lambda _before: sent

    async def _evict(self, request: Request, target: Target) -> Response:
        sent = self._body(request, "Eviction")
        if (sent.get("metadata") or {}).get("name") != target.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        deletion, options = requests.delete_options_of(request, sent.get("deleteOptions") or {})
        pod = target.kind.decode(self._writing.expect(target, deletion))
        decision = subresources.decide_eviction(
            pod, subresources.budgets_for(pod, self._budgets(target)), self._clock.now()
        )
        if isinstance(decision, subresources.UpdateBudget):
            await self._evict_from_budget(decision.budget, pod, target, deletion, options)
        else:
            await self._writing.delete(target, deletion, options)
        return answers.plain(_SUCCESS, self._form(request), code=201)

    async def _evict_from_budget(
        self, budget: Object, pod: Object, target: Target, deletion: DeleteOptions, options: Options
    ) -> None:
        """Write the budget with one disruption less, then delete the pod: two commits, as upstream."""
        kind = self._catalog.find(BUDGETS.group, BUDGETS.version, BUDGETS.plural)
        assert kind is not None
        place = Target(kind, target.namespace, budget["metadata"]["name"])
        await self._writing.update(place, lambda _old: budget, options, subresource="status")
        await self._writing.delete(target, deletion, options)

    async def _bind(self, request: Request, target: Target) -> Response:
        options = replace(requests.options(request, "CreateOptions"), manager="")
        edit = subresources.bind(self._body(request, "Binding"), target.name, self._clock.now())
        await self._writing.update(target, edit, options, subresource="binding")
        return answers.plain(_SUCCESS, self._form(request), code=201)

    def _token(self, request: Request, target: Target) -> Response:
        sent = self._body(request, "TokenRequest")
        account = Account(target.namespace, target.name, self._there(target).uid)
        warnings: list[str] = []
        issued = self._tokens.answer(sent, account, warnings, node=restricted_node(request.user))
        return answers.with_warnings(answers.plain(issued, self._form(request), code=201), warnings)

    def _review(self, request: Request, target: Target) -> Response:
        kind = target.kind
        sent = self._body(request, kind.resource.kind)
        sent = {**sent, "apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        context = subresources.ReviewContext(
            kind, request.user, self._policies.current, self._tokens.judge, target.namespace
        )
        return answers.plain(subresources.review(context, sent), self._form(request), code=201)

    def _budgets(self, target: Target) -> list[Object]:
        """The namespace's budgets in their latest state, including staged writes of other evictions."""
        committed = self._store.scan(str(BUDGETS), f"{target.namespace}/")
        latest = (self._store.latest(str(BUDGETS), record.key) for record in committed)
        return [orjson.loads(record.data) for record in latest if record is not None]

    def _there(self, target: Target) -> Record:
        record = self._store.get(target.collection, target.key)
        if record is None:
            raise refusals.not_found(target.kind.resource, target.name)
        return record

    def _body(self, request: Request, kind: str) -> dict[str, Any]:
        sent = requests.read(request.body, request.headers.get("content-type", ""), kind)
        if not isinstance(sent.get("metadata") or {}, dict):
            raise BadRequest(gojson.cannot_unmarshal(sent["metadata"], "v1.ObjectMeta"))
        return sent

    def _form(self, request: Request) -> answers.Form:
        return answers.form(request.headers.get("accept", ""))
