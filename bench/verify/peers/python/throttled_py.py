"""https://github.com/ZhuoZhuoCrayon/throttled-py: five algorithms on a clock of whole seconds, except GCRA and the sliding window."""

from datetime import timedelta

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from listen import SETTINGS, asgi
from throttled import Throttled, rate_limiter

quota = rate_limiter.per_duration(timedelta(seconds=SETTINGS["seconds"]), SETTINGS["limit"], burst=SETTINGS.get("burst"))
throttle = Throttled(using=SETTINGS["using"], quota=quota)
app = FastAPI()


@app.get("/")
async def root():
    limited = throttle.limit("all").limited
    return PlainTextResponse("", status_code=429 if limited else 200)


asgi(app)
