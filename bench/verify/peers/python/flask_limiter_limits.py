"""https://flask-limiter.readthedocs.io: limits such as 10/second;100/minute, by one of the strategies of `limits`."""

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from listen import SETTINGS, wsgi

app = Flask(__name__)
limiter = Limiter(
    get_remote_address,
    app=app,
    default_limits=[SETTINGS["limit"]],
    strategy=SETTINGS.get("strategy", "fixed-window"),
    storage_uri="memory://",
    headers_enabled=True,
)


@app.get("/")
def root():
    return "ok"


wsgi(app)
