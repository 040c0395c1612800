"""Who may look: the token, the Host header, and the headers that keep hostile text from acting in the page."""

import hashlib
import hmac
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names under which this machine reaches itself; a page of another name that the browser was tricked into has none of them."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer browsers call a form's origin "null", and no question would be taken
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Lets a request through to ``app`` only from those who may look.

    With a token, whoever holds it: as ``?token=`` (answered by a cookie and a redirect to the same page without it), as that
    cookie, or as a bearer. Without one, requests to loopback names only, so that no web site reaches the server by a name of
    its own that points here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token
        self._cookie = f"askevolve-{hashlib.sha256((token or '').encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._token is None:
            name = URL(f"http://{headers.get('host', '')}").hostname
            if name in LOOPBACK:
                return None
            return PlainTextResponse("This server answers to 127.0.0.1 and localhost only. Start it with --token.\n", 403)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and self._is_token(given):
            return self._welcome(scope, [pair for pair in query if pair[0] != "token"])
        cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or (cookie is not None and self._is_token(cookie.value)):
            return None
        return PlainTextResponse("Open the address with ?token=... that the server printed when it started.\n", 401)

    def _welcome(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """A redirect to the same page, relative so that it holds behind any prefix, with the cookie that opens it."""
        last = str(scope["path"]).rpartition("/")[2]
        answer = RedirectResponse(f"./{last}" + (f"?{urlencode(query)}" if query else ""), 303)
        answer.set_cookie(self._cookie, self._token or "", httponly=True, samesite="strict", path="/")
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def same_origin(headers: Headers) -> bool:
    """Whether a browser says that a page of this very server sent the request; a request without that word is no browser's."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return URL(origin).netloc == headers.get("host", "")
