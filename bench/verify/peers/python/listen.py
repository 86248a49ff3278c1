"""Starts a server on a free port of loopback, and says where, as `flowgate serve` does."""

import json
import logging
import socket
import sys

# The settings of the limiter, as one argument in JSON.
SETTINGS = json.loads(sys.argv[1])


def bound():
    """Returns a socket that is bound to a free port."""
    # Of this protocol by name: asyncio sends without delay only then, as it does with a host and a port.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{bound.getsockname()[1]}/,", flush=True)
    return bound


def asgi(app):
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    server.run(sockets=[bound()])


def wsgi(app):
    import waitress

    logging.getLogger("waitress").setLevel(logging.ERROR)
    waitress.serve(app, sockets=[bound()], threads=4)
