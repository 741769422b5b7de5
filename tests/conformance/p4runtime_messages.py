"""The other end of crates/p4info/tests/python.rs: Google's implementation of the messages.

Each line of standard input is one message of p4jet: name, binary, text, JSON (`-` if it has none), all but the name in hex; or
`file` and the descriptor of a file. Each line of standard output says what was read of it, or is a message for p4jet: name and
binary.
"""

import os
import random
import sys

os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, text_format
from google.protobuf.descriptor import FieldDescriptor as F
from google.rpc import status_pb2
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2

MODULES = [p4info_pb2, p4types_pb2, p4data_pb2, p4runtime_pb2, status_pb2]
DEPTH = 5


def classes():
    found = {}

    def add(cls):
        found[cls.DESCRIPTOR.full_name] = cls
        for nested in cls.DESCRIPTOR.nested_types:
            if not nested.GetOptions().map_entry:
                add(getattr(cls, nested.name))

    for module in MODULES:
        for name in module.DESCRIPTOR.message_types_by_name:
            add(getattr(module, name))
    return found


def scalar(field):
    if field.type == F.TYPE_BOOL:
        return True
    if field.type == F.TYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if field.type == F.TYPE_STRING:
        return "".join(random.choice('aZ"\\\n\t\'é漢') for _ in range(random.randrange(1, 9)))
    if field.type == F.TYPE_BYTES:
        return bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
    bits = 32 if field.type in (F.TYPE_INT32, F.TYPE_UINT32) else 64
    if field.type in (F.TYPE_UINT32, F.TYPE_UINT64):
        return random.randrange(1, 1 << bits)
    return random.choice([-1, 1]) * random.randrange(1, 1 << (bits - 1))


def fill(message, depth):
    descriptor = message.DESCRIPTOR
    chosen = {oneof.name: random.choice(oneof.fields) for oneof in descriptor.oneofs}
    for field in descriptor.fields:
        if depth < DEPTH and random.randrange(3):
            continue
        if field.containing_oneof and chosen[field.containing_oneof.name] is not field:
            continue
        place = getattr(message, field.name)
        repeated = field.label == F.LABEL_REPEATED
        if field.type == F.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                inner = place[scalar(field.message_type.fields_by_name["key"])]
                # prost leaves out an empty value of a map, which Google writes.
                while not inner.ByteSize():
                    fill(inner, depth - 1)
                continue
            for _ in range(random.randrange(1, 4) if repeated else 1):
                inner = place.add() if repeated else place
                inner.SetInParent()
                if depth > 0:
                    fill(inner, depth - 1)
        elif repeated:
            place.extend(scalar(field) for _ in range(random.randrange(1, 4)))
        else:
            setattr(message, field.name, scalar(field))


def plain(descriptor):
    """Removes from a descriptor what p4jet's descriptors lack, and the order of declaration."""
    for field, value in descriptor.ListFields():
        is_entry = descriptor.DESCRIPTOR.name == "DescriptorProto" and descriptor.options.map_entry
        if field.name in ("json_name", "reserved_name", "reserved_range") or field.name == "options" and not is_entry:
            descriptor.ClearField(field.name)
        elif field.label == F.LABEL_REPEATED:
            if field.type == F.TYPE_MESSAGE:
                for inner in value:
                    plain(inner)
            # Fields have the indices of oneofs.
            if field.name != "oneof_decl":
                value.sort(key=lambda inner: getattr(inner, "name", inner))
    return descriptor


def compare(ours):
    ours = descriptor_pb2.FileDescriptorProto.FromString(ours)
    theirs = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(ours.name).CopyToProto(theirs)
    print("file", ours.name, "same" if plain(ours) == plain(theirs) else "different")


def main():
    random.seed(1)
    known = classes()
    for line in sys.stdin:
        if line.startswith("file "):
            compare(bytes.fromhex(line.split(" ")[1]))
            continue
        name, binary, text, json = line.split(" ")
        binary, text = bytes.fromhex(binary), bytes.fromhex(text).decode()
        cls = known.pop(name, None) or seen[name]
        seen[name] = cls
        message = cls.FromString(binary)
        again = message.SerializeToString(deterministic=True)
        verdict = "same" if again == binary else "order" if sorted(again) == sorted(binary) else "different"
        # `==` would look for the types in each `Any`.
        if text_format.Parse(text, cls()).SerializeToString(deterministic=True) != again:
            verdict = "text"
        if json.strip() != "-" and (
            json_format.Parse(bytes.fromhex(json).decode(), cls()).SerializeToString(deterministic=True) != again
        ):
            verdict = "json"
        print("read", name, verdict)
    for name in known:
        print("missing", name)
    for name, cls in seen.items():
        for _ in range(20):
            message = cls()
            fill(message, DEPTH)
            print("message", name, message.SerializeToString(deterministic=True).hex() or "-")


seen = {}
main()
