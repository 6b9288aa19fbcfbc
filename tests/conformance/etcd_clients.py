"""A client of an etcd, for tests that change its members while it writes."""

import asyncio
import base64
from contextlib import asynccontextmanager, suppress

import aiohttp

from kubewright.base.clock import SystemClock

ANSWER_SECONDS = 3


class EtcdClient:
    """Calls the members at ``urls``, one after another until one answers. ``name``: of their certificate."""

    def __init__(self, urls, tls, http, name):
        self.urls, self._tls, self._http, self._name = list(urls), tls, http, name

    async def call(self, path, body):
        """The first answer of any member; None if none answers."""
        for url in self.urls:
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                sent = self._http.post(f"{url}{path}", json=body, ssl=self._tls, server_hostname=self._name)
                async with sent as answer:
                    if answer.status == 200:
                        return await answer.json(content_type=None)
        return None

    async def write(self, stop):
        """Write until told to stop; the keys that were acknowledged."""
        done, number = [], 0
        while not stop.is_set():
            key = f"k{number:06}"
            if await self.call("/v3/kv/put", {"key": encoded(key), "value": encoded("v")}):
                done.append(key)
            number += 1
            await SystemClock().sleep(0.01)
        return done

    async def keys(self):
        body = {"key": encoded("k"), "range_end": encoded("l"), "keys_only": True}
        answer = await self.call("/v3/kv/range", body)
        return {base64.b64decode(each["key"]).decode() for each in answer["kvs"]}

    async def members(self):
        """The names of those with a vote."""
        answer = await self.call("/v3/cluster/member/list", {"linearizable": True})
        return {each["name"] for each in answer["members"] if not each.get("isLearner")}


@asynccontextmanager
async def etcd_client(urls, tls, name=None):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as http:
        yield EtcdClient(urls, tls, http, name)


@asynccontextmanager
async def writing(client):
    """Write meanwhile; every key that was acknowledged is there at the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(client.write(stop))
    try:
        yield
    finally:
        stop.set()
        written = await task
    assert len(written) > 10
    assert set(written) <= await client.keys()


def encoded(text):
    return base64.b64encode(text.encode()).decode()
