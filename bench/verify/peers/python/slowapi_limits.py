"""https://slowapi.readthedocs.io: limits such as 10/second;100/minute, by one of the strategies of `limits`."""

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from listen import SETTINGS, asgi
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

limiter = Limiter(key_func=get_remote_address, strategy=SETTINGS.get("strategy", "fixed-window"), headers_enabled=True)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/")
@limiter.limit(SETTINGS["limit"])
async def root(request: Request):
    return PlainTextResponse("ok")


asgi(app)
