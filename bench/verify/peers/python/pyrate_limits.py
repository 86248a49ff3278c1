"""https://github.com/vutran1710/PyrateLimiter: the times of requests in a bucket, against one rate or several."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from listen import SETTINGS, asgi
from pyrate_limiter import InMemoryBucket, Limiter, Rate

limiter = Limiter(InMemoryBucket([Rate(count, ms) for count, ms in SETTINGS["rates"]]))
app = FastAPI()


@app.get("/")
async def root():
    admitted = limiter.try_acquire("all", blocking=False)
    return PlainTextResponse("", status_code=200 if admitted else 429)


asgi(app)
