"""Asks a rate limit service: ask.py ADDRESS reflection|official. Prints what is answered, one line each."""

import json
import sys

address, definitions = sys.argv[1:]
request = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": definitions}]}]}

if definitions == "reflection":
    # A client without definitions: it learns them from the server.
    from grpc_requests import Client

    client = Client.get_by_endpoint(address)
    print(json.dumps(sorted(client.service_names)))
    service = "envoy.service.ratelimit.v3.RateLimitService"
    for _ in range(3):
        print(json.dumps(client.request(service, "ShouldRateLimit", request), sort_keys=True))
    print(json.dumps(client.request("grpc.health.v1.Health", "Check", {})))
else:
    # The official client with the official definitions.
    import grpc
    from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
    from google.protobuf.json_format import MessageToDict, ParseDict

    with grpc.insecure_channel(address) as channel:
        stub = rls_pb2_grpc.RateLimitServiceStub(channel)
        for _ in range(3):
            answer = stub.ShouldRateLimit(ParseDict(request, rls_pb2.RateLimitRequest()), timeout=60)
            print(json.dumps(MessageToDict(answer), sort_keys=True))
        try:
            stub.ShouldRateLimit(rls_pb2.RateLimitRequest(domain="api"), timeout=60)
        except grpc.RpcError as error:
            print(json.dumps([error.code().name, error.details()]))
