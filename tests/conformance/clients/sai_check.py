#!/usr/bin/env python3
"""sai_check.py ADDRESS NAME EXPECTED_P4INFO: compares NAME.txtpb with the P4Info that sonic-pins expects, installs
NAME-bmv2.json, which is the program for bmv2, writes entries that its constraints allow and forbid, and sends a packet to the
switch that comes back to it."""

import queue
import sys
import threading

import grpc
from google.protobuf import text_format
from google.rpc import status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

OK, INVALID_ARGUMENT = 0, 3
CPU_PORT, CPU_SESSION, CPU_INSTANCE = 510, 255, 1
# The oldest of several entries with the same priority wins, so an entry that must win needs a higher one.
PRIORITY, HIGHER_PRIORITY = 10, 20
ANSWER_SECONDS = 20


def load(path):
    with open(path) as file:
        return text_format.Parse(file.read(), p4info_pb2.P4Info())


def fail(text):
    print(text)
    sys.exit(1)


def objects(info):
    """Pairs a kind and a name with the object; what is not an object has only a kind."""
    for field, value in info.ListFields():
        if hasattr(value, "add") and field.message_type.fields_by_name.get("preamble"):
            for item in value:
                yield (field.name, item.preamble.name), item
        else:
            yield (field.name, ""), value


def compare(found, expected):
    # sonic-pins made its files with a p4c that did not write default actions yet.
    if not any(table.HasField("initial_default_action") for table in expected.tables):
        for table in found.tables:
            table.ClearField("initial_default_action")
    found, expected = dict(objects(found)), dict(objects(expected))
    different = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    if different:
        fail(f"P4Info differs in {len(different)} of {len(expected)} objects: {sorted(different)[:5]}")
    return len(expected)


class Switch:
    def __init__(self, address, info):
        self.info = info
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(grpc.insecure_channel(address))
        self.requests, self.answers = queue.Queue(), queue.Queue()
        stream = self.stub.StreamChannel(iter(self.requests.get, None))
        threading.Thread(target=self.listen, args=(stream,), daemon=True).start()
        hello = p4runtime_pb2.StreamMessageRequest()
        hello.arbitration.device_id = 1
        hello.arbitration.election_id.low = 1
        self.requests.put(hello)
        self.answer("answer to the arbitration")

    def listen(self, stream):
        try:
            for message in stream:
                self.answers.put(message)
        except grpc.RpcError as error:
            self.answers.put(error)

    def answer(self, what):
        """The next message of the stream."""
        try:
            message = self.answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            fail(f"no {what} within {ANSWER_SECONDS} s")
        if isinstance(message, grpc.RpcError):
            fail(f"no {what}: the stream ended with {message.code()}: {message.details()}")
        return message

    def install(self, info, config):
        self.info = info
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
        request.election_id.low = 1
        request.action = request.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = config
        self.stub.SetForwardingPipelineConfig(request)

    def insert(self, table, matches, action, params=(), priority=PRIORITY):
        """Inserts an entry. A match is `name: (value, mask)`, or `name: value` if it is optional. Returns code and message."""
        request = p4runtime_pb2.WriteRequest(device_id=1)
        request.election_id.low = 1
        update = request.updates.add()
        update.type = update.INSERT
        entry = update.entity.table_entry
        info = next(t for t in self.info.tables if t.preamble.alias == table)
        entry.table_id = info.preamble.id
        kinds = set()
        for field in info.match_fields:
            kinds.add(field.match_type)
            if field.name not in matches:
                continue
            value = matches[field.name]
            match = entry.match.add()
            match.field_id = field.id
            if field.match_type == field.TERNARY:
                match.ternary.value, match.ternary.mask = encode(value[0]), encode(value[1])
            elif field.match_type == field.OPTIONAL:
                match.optional.value = encode(value)
            else:
                match.exact.value = encode(value) if isinstance(value, int) else value
        if kinds != {p4info_pb2.MatchField.EXACT}:
            entry.priority = priority
        chosen = next(a for a in self.info.actions if a.preamble.alias == action)
        entry.action.action.action_id = chosen.preamble.id
        for number, value in enumerate(params, 1):
            param = entry.action.action.params.add()
            param.param_id = number
            param.value = encode(value)
        return self.write(request)

    def clone_to_cpu(self):
        request = p4runtime_pb2.WriteRequest(device_id=1)
        request.election_id.low = 1
        update = request.updates.add()
        update.type = update.INSERT
        session = update.entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = CPU_SESSION
        replica = session.replicas.add()
        replica.egress_port, replica.instance = CPU_PORT, CPU_INSTANCE
        return self.write(request)

    def header(self, name):
        return next(h for h in self.info.controller_packet_metadata if h.preamble.name == name)

    def port(self, header, name, number):
        """A port as the P4Info says: a text if the type is translated to texts, which have no bitwidth."""
        field = next(field for field in self.header(header).metadata if field.name == name)
        return encode(number) if field.bitwidth else str(number).encode()

    def packet_out(self, payload, **values):
        header = self.header("packet_out")
        message = p4runtime_pb2.StreamMessageRequest()
        message.packet.payload = payload
        for field in header.metadata:
            metadata = message.packet.metadata.add()
            metadata.metadata_id, metadata.value = field.id, encode(values.get(field.name, 0))
        self.requests.put(message)

    def packet_in(self):
        """The next packet: payload and metadata by name."""
        names = {field.id: field.name for field in self.header("packet_in").metadata}
        message = self.answer("packet")
        if not message.HasField("packet"):
            fail(f"expected a packet: {message}")
        packet = message.packet
        return packet.payload, {names[m.metadata_id]: m.value for m in packet.metadata}

    def write(self, request):
        try:
            self.stub.Write(request)
            return OK, ""
        except grpc.RpcError as error:
            for name, value in error.trailing_metadata():
                if name == "grpc-status-details-bin":
                    status = status_pb2.Status.FromString(value)
                    first = p4runtime_pb2.Error()
                    status.details[0].Unpack(first)
                    return first.canonical_code, first.message
            return error.code().value[0], error.details()


def encode(value):
    if isinstance(value, bytes):
        return value
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


WBB = [
    ({"is_ipv4": 1, "ttl": (1, 0xFF)}, OK),
    ({"is_ipv6": 1, "ttl": (2, 0xFF)}, OK),
    ({"ether_type": (0x88CC, 0xFFFF)}, OK),
    ({"ether_type": (0x6007, 0xFFFF)}, OK),
    ({}, INVALID_ARGUMENT),
    ({"is_ipv4": 1, "ttl": (3, 0xFF)}, INVALID_ARGUMENT),
    ({"is_ipv4": 1, "is_ipv6": 1, "ttl": (1, 0xFF)}, INVALID_ARGUMENT),
    ({"ether_type": (0x88CD, 0xFFFF)}, INVALID_ARGUMENT),
    ({"ether_type": (0x88CC, 0xFFFE)}, INVALID_ARGUMENT),
    ({"ether_type": (0x88CC, 0xFFFF), "ttl": (0, 0xFF)}, INVALID_ARGUMENT),
]

OTHERS = [
    ({"is_ipv4": 1, "dst_ip": (0x0A000001, 0xFFFFFFFF)}, OK),
    ({"is_ip": 1, "ttl": (1, 0xFF)}, OK),
    ({"ether_type": (0x88CC, 0xFFFF)}, OK),
    ({}, OK),
    ({"dst_ip": (0x0A000001, 0xFFFFFFFF)}, INVALID_ARGUMENT),
    ({"is_ipv6": 1, "dst_ip": (0x0A000001, 0xFFFFFFFF)}, INVALID_ARGUMENT),
    ({"is_ipv4": 0, "dst_ip": (0x0A000001, 0xFFFFFFFF)}, INVALID_ARGUMENT),
    ({"is_ip": 1, "is_ipv4": 1}, INVALID_ARGUMENT),
    ({"is_ipv4": 0}, INVALID_ARGUMENT),
    ({"is_ip": 1, "ether_type": (0x88CC, 0xFFFF)}, INVALID_ARGUMENT),
    ({"ether_type": (0x0800, 0xFFFF)}, INVALID_ARGUMENT),
    ({"ttl": (1, 0xFF)}, INVALID_ARGUMENT),
    ({"l4_dst_port": (80, 0xFFFF)}, INVALID_ARGUMENT),
]


def main():
    address, name, expected = sys.argv[1:]
    same = compare(load(f"{name}.txtpb"), load(expected))
    info = load(f"{name}-bmv2.txtpb")
    switch = Switch(address, info)
    with open(f"{name}-bmv2.json", "rb") as file:
        switch.install(info, file.read())
    aliases = {table.preamble.alias for table in info.tables}
    wbb = "acl_wbb_ingress_table" in aliases
    table, action, cases = (
        ("acl_wbb_ingress_table", "acl_wbb_ingress_trap", WBB) if wbb else ("acl_ingress_table", "acl_drop", OTHERS))
    for matches, code in cases:
        got, message = switch.insert(table, matches, action)
        if got != code:
            fail(f"{table} with {matches}: code {got}, not {code}: {message}")
        if code == INVALID_ARGUMENT and "::mask" not in message and "==" not in message and "!=" not in message:
            fail(f"{table} with {matches}: the message does not show the condition: {message}")
    entries = len(cases)
    if "ipv4_multicast_table" in aliases:
        key = {"vrf_id": b"vrf-1", "ipv4_dst": 0xE0000001}
        got, message = switch.insert("ipv4_multicast_table", key, "set_multicast_group_id", [0])
        if got != INVALID_ARGUMENT or "multicast_group_id" not in message:
            fail(f"@action_restriction: code {got}: {message}")
        entries += 1
    restricted = sum("restriction(" in a for o in [*info.tables, *info.actions] for a in o.preamble.annotations)
    packets = "no packets" if wbb else punt(switch, table)
    print(f"P4Info equal ({same} objects), {restricted} restrictions, {entries} entries judged as they say, {packets}")


def punt(switch, table):
    """A packet of the controller goes through the pipeline, which traps it."""
    written = [
        switch.clone_to_cpu(),
        switch.insert("ingress_clone_table", {"marked_to_copy": 1, "marked_to_mirror": 0}, "ingress_clone", [CPU_SESSION]),
        switch.insert(table, {"ether_type": (0x88CD, 0xFFFF)}, "acl_trap", [b"queue-1"], HIGHER_PRIORITY),
    ]
    for code, message in written:
        if code != OK:
            fail(f"code {code}: {message}")
    frame = bytes.fromhex("0180c200000e 020000000001 88cd") + bytes(50)
    switch.packet_out(frame, egress_port=switch.port("packet_out", "egress_port", 1), submit_to_ingress=1)
    payload, metadata = switch.packet_in()
    if payload != frame or metadata.get("ingress_port") != switch.port("packet_in", "ingress_port", CPU_PORT):
        fail(f"packet-in {metadata}, {payload.hex()}")
    return f"packet-in {metadata}"


main()
