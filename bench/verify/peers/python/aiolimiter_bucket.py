"""https://aiolimiter.readthedocs.io: a leaky bucket as a meter; what finds it full waits, or is refused with `refuse`."""

from aiolimiter import AsyncLimiter
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from listen import SETTINGS, asgi

limiter = AsyncLimiter(SETTINGS["max_rate"], SETTINGS["seconds"])
app = FastAPI()


@app.get("/")
async def root():
    if SETTINGS.get("refuse") and not limiter.has_capacity():
        return PlainTextResponse("", status_code=429)
    await limiter.acquire()
    return PlainTextResponse("ok")


asgi(app)
