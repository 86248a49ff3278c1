"""Asks the door of RESP as redis-py does: ask_redis.py PORT PASSWORD PROTOCOL. Prints what is answered, one line each."""

import json
import sys

import redis

port, password, protocol = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def client(password):
    return redis.Redis(
        port=port, password=password, protocol=protocol, client_name="shop", decode_responses=True, socket_timeout=60
    )


shop = client(password)
hello = shop.execute_command("HELLO", protocol)
if isinstance(hello, list):
    hello = dict(zip(hello[::2], hello[1::2]))
print(json.dumps({"server": hello["server"], "ping": "PONG" if shop.ping() else None}))
print(json.dumps(shop.execute_command("CL.THROTTLE", "user:1", 2, 60, 60, 1)))
pipeline = shop.pipeline(transaction=False)
for _ in range(3):
    pipeline.execute_command("FG.ASK", "users", "alice")
pipeline.execute_command("FG.ASK", "nobody", "alice")
answers = pipeline.execute(raise_on_error=False)
print(json.dumps([str(answer) if isinstance(answer, Exception) else answer[:3] for answer in answers]))
try:
    client("guess").ping()
except redis.AuthenticationError:
    print(json.dumps("WRONGPASS"))
