"""Stream: server-sent events, each the JSON of what changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

_ALIVE = 15.0  # seconds of silence after which a comment keeps the connection


def watch(request: Request, look: Callable[[], Any], every: float = 0.4) -> StreamingResponse:
    """Send what `look` returns, now and whenever it is another than before, until the page is left."""

    async def events() -> AsyncIterator[str]:
        last, silent = "", 0.0
        ends = getattr(request.app.state, "ends", lambda: False)
        while not ends() and not await request.is_disconnected():
            now = json.dumps(await run_in_threadpool(look))
            if now != last:
                last, silent = now, 0.0
                yield f"data: {now}\n\n"
            elif silent > _ALIVE:
                silent = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(every)
            silent += every

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
