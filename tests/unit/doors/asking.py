"""Requests to an application in this process, one after the other."""

import asyncio

import httpx


class Asking:
    """A client as httpx has it, without a socket and without ``await``."""

    def __init__(self, app, base_url="http://testserver", address="127.0.0.1"):
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 5))
        self._base_url = base_url
        self.cookies = {}

    def request(self, method, path, **more):
        async def ask():
            async with httpx.AsyncClient(
                transport=self._transport, base_url=self._base_url, cookies=self.cookies
            ) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, **more):
        return self.request("POST", path, **more)

    def put(self, path, **more):
        return self.request("PUT", path, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)
