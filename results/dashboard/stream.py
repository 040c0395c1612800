"""One stream a page: the newest sequence number, at most twice a second. What changed, the page fetches itself."""

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from results.dashboard.view import RunView
from results.errors import RunError

TICK_S = 0.5
ALIVE_S = 15.0
"""How often a word is sent while nothing happens, so that proxies keep the stream open."""


def changes(view: RunView, request: Request) -> StreamingResponse:
    """Server-sent events ``{"seq": N}``: at once, and whenever something was stored; ends with the page or the server."""
    return StreamingResponse(_ticks(view, request), media_type="text/event-stream")


async def _ticks(view: RunView, request: Request) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    sent, spoke = -1, loop.time()
    while not (request.app.state.closing or await request.is_disconnected()):
        try:
            seq = await run_in_threadpool(view.seq)
        except RunError as error:
            yield f"event: fault\ndata: {json.dumps({'error': str(error)})}\n\n"
            return
        if seq != sent:
            sent, spoke = seq, loop.time()
            yield f"id: {seq}\ndata: {json.dumps({'seq': seq})}\n\n"
        elif loop.time() - spoke > ALIVE_S:
            spoke = loop.time()
            yield ": nothing new\n\n"
        await asyncio.sleep(TICK_S)
