// A router that limits rate and delay of slices by virtual queues (H. Harkous, doctoral thesis, TU Munich 2022).
//
//     parser ─▶ TTL ─▶ routes ─▶ next_hops ─▶ classify_v4 / classify_v6 ─▶ slices ─▶ virtual queue ─▶ egress
//
// A virtual queue holds no packets. It is one number for each slice: the moment at which a queue would be empty that is
// served at the slice's rate. The time until then is the slice's virtual delay. README.md has the tables and schemes.
//
// Four short files make other programs of this one: meters.p4 has meters instead of virtual queues, router.p4 neither
// classifier nor limits, both for comparison; real_queue.p4 also takes the delay in output queues into account, and
// split_clock.p4 has a clock of seconds and nanoseconds, as network processors have.
#include <core.p4>
#include <v1model.p4>

#if !defined(METERS) && !defined(ROUTER)
#define VIRTUAL_QUEUES
#endif
#ifdef ROUTER
#undef TELEMETRY
#endif

// Number of slices, including 0 for packets that belong to none.
#ifndef SLICES
#define SLICES 1024
#endif

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_IPV6 = 0x86dd;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<8>  PROTOCOL_SCTP = 132;
const bit<16> PORT_VXLAN = 4789;  // RFC 7348
const bit<16> PORT_GTPU = 2152;   // 3GPP TS 29.281, section 4.4.2
const bit<4>  IHL_NO_OPTIONS = 5;
const bit<32> ETHERNET_BYTES = 14;
const bit<32> IPV6_BYTES = 40;

#ifndef ROUTER
const bit<2>  ECN_NOT_CAPABLE = 0;
const bit<2>  ECN_CE = 3;  // congestion experienced (RFC 3168, section 5)
#endif

// The first extension header of GTP-U that carries a QFI (TS 29.281, section 5.2.1; TS 38.415).
const bit<8>  PDU_SESSION_CONTAINER = 0x85;

typedef bit<48> mac_t;
typedef bit<9>  port_t;
typedef bit<16> next_hop_t;
typedef bit<10> slice_t;

// A moment, and a time, in units of the clock.
@noWarn("unused")
typedef bit<64> moment_t;
typedef bit<64> time_t;

// What tunnel a packet is in, in front of its VNI or QFI.
enum bit<2> Tunnel {
    NONE = 0,
    VXLAN = 1,
    GTPU = 2
}

// What happened to a packet of a slice: the lowest two bits of the index in `outcomes`.
enum bit<2> Outcome {
    FORWARDED = 0,
    MARKED = 1,
    // The queue was full.
    DROPPED = 2,
    // At random, before the queue was full.
    DROPPED_EARLY = 3
}

header ethernet_t {
    mac_t   dstAddr;
    mac_t   srcAddr;
    bit<16> etherType;
}

// RFC 791, section 3.1, up to the options. The lowest two bits of the type of service are ECN (RFC 3168, section 5).
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> totalLen;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragOffset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
}

header ipv4_options_t {
    varbit<320> options;
}

// RFC 8200, section 3.
header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flowLabel;
    bit<16>  payloadLen;
    bit<8>   nextHdr;
    bit<8>   hopLimit;
    bit<128> srcAddr;
    bit<128> dstAddr;
}

// What the parser only looks at stays in the payload.
struct l4_ports_t {
    bit<16> srcPort;
    bit<16> dstPort;
}

struct udp_vxlan_t {
    bit<64> udp;
    bit<8>  flags;
    bit<24> reserved;
    bit<24> vni;
}

struct udp_gtpu_t {
    bit<64> udp;
    bit<3>  version;
    bit<1>  protocolType;
    bit<1>  reserved;
    bit<1>  hasExtension;
    bit<2>  hasSequenceOrNumber;
    bit<80> type_length_teid_sequence_number;
    bit<8>  nextExtension;
    bit<8>  extensionLength;
    bit<10> pduType_others;
    bit<6>  qfi;
}

struct headers_t {
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t         ipv6;
}

struct metadata_t {
    // The IP header is complete and consistent.
    bit<1>     is_ip;
    next_hop_t next_hop;
    // What slices match, besides addresses.
    bit<6>     dscp;
    bit<8>     protocol;
    bit<16>    srcPort;
    bit<16>    dstPort;
    Tunnel     tunnel;
    bit<24>    tunnel_id;
    // From `slices`.
    slice_t    slice;
    bit<1>     is_limited;
    // Cost of a packet, and of a byte in 1/256 units of time.
    time_t     per_packet;
    bit<40>    per_byte;
    // Packets that would make the delay longer than this are dropped.
    time_t     limit;
    // Above this delay, packets are marked or dropped at random.
    time_t     early;
    bit<1>     marks;
    bit<1>     drops_early;
    // Probability per microsecond above `early`, in 2^-32; 0 for certainty.
    bit<32>    slope;
    // For the record in the packet: virtual delay, and packets dropped since the last record.
    time_t     delay;
    bit<4>     drops;
}

#ifdef VIRTUAL_QUEUES
// ---- the clock ----

#ifdef SPLIT_CLOCK

// Seconds in the upper 32 bits, nanoseconds below 10^9 in the lower 32. Times are nanoseconds, below a second.
const bit<64> SECOND = 1000000000;
// What the clock jumps by at the end of a second: 2^32 - 10^9.
const bit<64> GAP = 3294967296;

// v1model has no such clock, so it is computed. CLOCK_START is the second at which it starts.
#ifndef CLOCK_START
#define CLOCK_START 0
#endif
moment_t clock(in bit<48> us) {
    return (bit<32>) (us / 1000000 + CLOCK_START) ++ (bit<32>) (us % 1000000 * 1000);
}

moment_t later(in moment_t now, in time_t time) {
    moment_t sum = now + time;
    sum = (sum & 0xffffffff) >= SECOND ? sum + GAP : sum;
    return sum == 0 ? 1 : sum;
}

// The time until `moment`, or 0 if it has passed. 0 is no moment, but a register's first value.
time_t until(in moment_t moment, in moment_t now) {
    time_t difference = moment - now;
    if (difference >= GAP) {
        difference = difference - GAP;
    }
    return difference < SECOND && moment != 0 ? difference : 0;
}

@noWarn("unused")
time_t from_us(in bit<32> us) {
    return (bit<64>) us * 1000;
}

bit<32> to_us(in time_t time) {
    return (bit<32>) (time / 1000);
}

#else

// Microseconds with 16 binary digits behind the point, so that it wraps around when v1model's clock does. Times are
// below 2^40 units, 16.7 s. CLOCK_START is the microsecond at which the clock starts.
#ifndef CLOCK_START
#define CLOCK_START 0
#endif
moment_t clock(in bit<48> us) {
    return (bit<64>) (us + CLOCK_START) << 16;
}

moment_t later(in moment_t now, in time_t time) {
    moment_t sum = now + time;
    return sum == 0 ? 1 : sum;
}

// The time until `moment`, or 0 if it has passed: then the difference is large. 0 is no moment, but a register's first value.
time_t until(in moment_t moment, in moment_t now) {
    time_t difference = moment - now;
    return difference[63:40] == 0 && moment != 0 ? difference : 0;
}

@noWarn("unused")
time_t from_us(in bit<32> us) {
    return (bit<64>) us << 16;
}

bit<32> to_us(in time_t time) {
    return time[47:16];
}

#endif
#endif

// ---- checksum ----

// The checksum of an IPv4 header after one of its words has changed (RFC 1624, equation 3).
bit<16> checksum_after(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>) ~checksum + (bit<32>) ~before + (bit<32>) after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    // The tests of RFC 1812, section 5.2.2, that need no checksum.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        meta.dscp = hdr.ipv4.dscp;
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.totalLen >= (bit<16>) hdr.ipv4.ihl << 2) {
            (4, IHL_NO_OPTIONS, true): parse_ipv4_payload;
            (4, IHL_NO_OPTIONS .. 15, true): parse_ipv4_options;
            default: accept;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>) (hdr.ipv4.ihl - IHL_NO_OPTIONS)) << 5);
        transition parse_ipv4_payload;
    }

    // Only the first fragment has ports.
    state parse_ipv4_payload {
        meta.is_ip = 1;
        transition select(hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_ports;
            (0, PROTOCOL_UDP): parse_ports;
            (0, PROTOCOL_SCTP): parse_ports;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.dscp = hdr.ipv6.dscp;
        meta.protocol = hdr.ipv6.nextHdr;
        meta.is_ip = (bit<1>) (hdr.ipv6.version == 6);
        transition select(hdr.ipv6.version, hdr.ipv6.nextHdr) {
            (6, PROTOCOL_TCP): parse_ports;
            (6, PROTOCOL_UDP): parse_ports;
            (6, PROTOCOL_SCTP): parse_ports;
            default: accept;
        }
    }

    // From here on, a packet that ends too early has no ports or no tunnel, and is forwarded.
    state parse_ports {
        l4_ports_t ports = packet.lookahead<l4_ports_t>();
        meta.srcPort = ports.srcPort;
        meta.dstPort = ports.dstPort;
        transition select(meta.protocol, ports.dstPort) {
            (PROTOCOL_UDP, PORT_VXLAN): parse_vxlan;
            (PROTOCOL_UDP, PORT_GTPU): parse_gtpu;
            default: accept;
        }
    }

    // The I flag: the VNI is valid (RFC 7348, section 5).
    state parse_vxlan {
        udp_vxlan_t vxlan = packet.lookahead<udp_vxlan_t>();
        meta.tunnel = vxlan.flags[3:3] == 1 ? Tunnel.VXLAN : Tunnel.NONE;
        meta.tunnel_id = vxlan.vni;
        transition accept;
    }

    // A PDU session container is the first extension header (TS 29.281, section 5.2.1).
    state parse_gtpu {
        udp_gtpu_t gtpu = packet.lookahead<udp_gtpu_t>();
        meta.tunnel_id = (bit<24>) gtpu.qfi;
        transition select(gtpu.version, gtpu.protocolType, gtpu.hasExtension, gtpu.nextExtension) {
            (1, 1, 1, PDU_SESSION_CONTAINER): parse_qfi;
            default: accept;
        }
    }

    state parse_qfi {
        meta.tunnel = Tunnel.GTPU;
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr,
              hdr.ipv4_options.options },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

#ifdef REAL_QUEUE
// When a packet would leave that entered the queue now, by port and priority: written by egress, read by ingress.
register<moment_t>(4096) leaves_at;
#endif

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    // ---- routing ----

    action set_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    table routes_v4 {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 1048576;
    }

    table routes_v6 {
        key = { hdr.ipv6.dstAddr : lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 262144;
    }

    action send_to(port_t port, mac_t smac, mac_t dmac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = smac;
        hdr.ethernet.dstAddr = dmac;
    }

    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { send_to; drop; }
        default_action = drop();
        size = 65536;
    }

#ifndef ROUTER
    // ---- the classifier ----

    action to_slice(slice_t slice) {
        meta.slice = slice;
    }

    table classify_v4 {
        key = {
            hdr.ipv4.srcAddr : ternary;
            hdr.ipv4.dstAddr : ternary;
            meta.dscp        : ternary;
            meta.protocol    : ternary;
            meta.srcPort     : range;
            meta.dstPort     : range;
            meta.tunnel      : ternary;
            meta.tunnel_id   : ternary;
        }
        actions = { to_slice; }
        default_action = to_slice(0);
        size = 65536;
    }

    table classify_v6 {
        key = {
            hdr.ipv6.srcAddr : ternary;
            hdr.ipv6.dstAddr : ternary;
            meta.dscp        : ternary;
            meta.protocol    : ternary;
            meta.srcPort     : range;
            meta.dstPort     : range;
            meta.tunnel      : ternary;
            meta.tunnel_id   : ternary;
        }
        actions = { to_slice; }
        default_action = to_slice(0);
        size = 65536;
    }

    // Packets and bytes by slice and outcome.
    counter(SLICES * 4, CounterType.packets_and_bytes) outcomes;

    action mark() {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.hdrChecksum = checksum_after(hdr.ipv4.hdrChecksum, (bit<16>) hdr.ipv4.ecn, (bit<16>) ECN_CE);
            hdr.ipv4.ecn = ECN_CE;
        } else {
            hdr.ipv6.ecn = ECN_CE;
        }
    }
#endif

#ifdef VIRTUAL_QUEUES
    // ---- slices with virtual queues ----

    // When each slice's queue will be empty.
    register<moment_t>(SLICES) queues;
#ifdef TELEMETRY
    // Packets dropped that no record has reported yet.
    register<bit<32>>(SLICES) unreported;
#endif

    action unlimited(bit<3> queue) {
        standard_metadata.priority = queue;
    }

    action tail_drop(bit<3> queue, bit<40> per_packet, bit<40> per_byte, bit<40> limit) {
        standard_metadata.priority = queue;
        meta.is_limited = 1;
        meta.per_packet = (bit<64>) per_packet;
        meta.per_byte = per_byte;
        meta.limit = (bit<64>) limit;
    }

    // Packets that are ECN-capable are marked when the delay is above `early`.
    action ecn_step(bit<3> queue, bit<40> per_packet, bit<40> per_byte, bit<40> limit, bit<40> early) {
        tail_drop(queue, per_packet, per_byte, limit);
        meta.early = (bit<64>) early;
        meta.marks = 1;
    }

    // Above `early`, packets are dropped with a probability that grows with the delay.
    action early_drop(bit<3> queue, bit<40> per_packet, bit<40> per_byte, bit<40> limit, bit<40> early,
                      bit<32> slope) {
        tail_drop(queue, per_packet, per_byte, limit);
        meta.early = (bit<64>) early;
        meta.slope = slope;
        meta.drops_early = 1;
    }

    // The same, but packets that are ECN-capable are marked instead.
    action early_mark(bit<3> queue, bit<40> per_packet, bit<40> per_byte, bit<40> limit, bit<40> early,
                      bit<32> slope) {
        early_drop(queue, per_packet, per_byte, limit, early, slope);
        meta.marks = 1;
    }

    table slices {
        key = { meta.slice : exact; }
        actions = { unlimited; tail_drop; ecn_step; early_drop; early_mark; }
        default_action = unlimited(0);
        size = SLICES;
    }

    action limit_slice(out Outcome outcome) {
        bit<32> bytes = standard_metadata.packet_length - ETHERNET_BYTES;
        time_t cost = meta.per_packet + (((bit<64>) bytes * (bit<64>) meta.per_byte) >> 8);
        moment_t now = clock(standard_metadata.ingress_global_timestamp);
        time_t real = 0;
#ifdef REAL_QUEUE
        bit<32> output_queue = (bit<32>) (standard_metadata.egress_spec ++ standard_metadata.priority);
#endif
        bit<2> ecn = hdr.ipv4.isValid() ? hdr.ipv4.ecn : hdr.ipv6.ecn;
        bool is_capable = ecn != ECN_NOT_CAPABLE;
        outcome = Outcome.FORWARDED;
        @atomic {
            moment_t empty_at;
            queues.read(empty_at, (bit<32>) meta.slice);
            time_t after = until(empty_at, now) + cost;
#ifdef REAL_QUEUE
            moment_t leaves;
            leaves_at.read(leaves, output_queue);
            real = until(leaves, now) + cost;
#endif
            time_t delay = after > real ? after : real;
            if (delay > meta.limit) {
                outcome = Outcome.DROPPED;
            } else if (meta.marks | meta.drops_early == 1 && delay > meta.early) {
                bit<32> chance = 0;
                if (meta.slope != 0) {
                    random(chance, 0, 0xffffffff);
                }
                bool is_hit = meta.slope == 0 ||
                    (bit<64>) chance < (bit<64>) to_us(delay - meta.early) * (bit<64>) meta.slope;
                if (is_hit && meta.marks == 1 && is_capable) {
                    outcome = Outcome.MARKED;
                } else if (is_hit && meta.drops_early == 1) {
                    outcome = Outcome.DROPPED_EARLY;
                }
            }
            // FORWARDED or MARKED.
            bool is_admitted = ((bit<2>) outcome)[1:1] == 0;
            if (is_admitted) {
                queues.write((bit<32>) meta.slice, later(now, after));
#ifdef REAL_QUEUE
                // Until a packet that leaves shows better.
                leaves_at.write(output_queue, later(now, real));
#endif
            }
#ifdef TELEMETRY
            bit<32> drops;
            unreported.read(drops, (bit<32>) meta.slice);
            if (is_admitted) {
                meta.delay = after;
                meta.drops = drops[31:4] == 0 ? drops[3:0] : 15;
                drops = drops - (bit<32>) meta.drops;
            } else {
                drops = drops + 1;
            }
            unreported.write((bit<32>) meta.slice, drops);
#endif
        }
    }
#endif

#ifdef METERS
    // ---- slices with meters ----

    // Two-rate three-colour markers (RFC 2698): above the peak rate a packet is red, above the committed rate yellow.
    meter(SLICES, MeterType.bytes) meters;

    action unlimited(bit<3> queue) {
        standard_metadata.priority = queue;
    }

    // Red packets are dropped.
    action tail_drop(bit<3> queue) {
        standard_metadata.priority = queue;
        meta.is_limited = 1;
    }

    // The same, and yellow packets that are ECN-capable are marked.
    action ecn_step(bit<3> queue) {
        tail_drop(queue);
        meta.marks = 1;
    }

    table slices {
        key = { meta.slice : exact; }
        actions = { unlimited; tail_drop; ecn_step; }
        default_action = unlimited(0);
        size = SLICES;
    }

    action limit_slice(out Outcome outcome) {
        bit<2> color;
        meters.execute_meter((bit<32>) meta.slice, color);
        bit<2> ecn = hdr.ipv4.isValid() ? hdr.ipv4.ecn : hdr.ipv6.ecn;
        if (color == V1MODEL_METER_COLOR_RED) {
            outcome = Outcome.DROPPED;
        } else if (color == V1MODEL_METER_COLOR_YELLOW && meta.marks == 1 && ecn != ECN_NOT_CAPABLE) {
            outcome = Outcome.MARKED;
        } else {
            outcome = Outcome.FORWARDED;
        }
    }
#endif

    apply {
        if (meta.is_ip == 0 || standard_metadata.checksum_error == 1) {
            drop();
            return;
        }
        if (hdr.ipv4.isValid()) {
            // A frame that is longer than IP says is fine: Ethernet pads.
            if (standard_metadata.packet_length < ETHERNET_BYTES + (bit<32>) hdr.ipv4.totalLen || hdr.ipv4.ttl <= 1) {
                drop();
                return;
            }
            switch (routes_v4.apply().action_run) {
                drop: { return; }
            }
            bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.protocol;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            hdr.ipv4.hdrChecksum =
                checksum_after(hdr.ipv4.hdrChecksum, before, hdr.ipv4.ttl ++ hdr.ipv4.protocol);
        } else {
            if (standard_metadata.packet_length < ETHERNET_BYTES + IPV6_BYTES + (bit<32>) hdr.ipv6.payloadLen ||
                hdr.ipv6.hopLimit <= 1) {
                drop();
                return;
            }
            switch (routes_v6.apply().action_run) {
                drop: { return; }
            }
            hdr.ipv6.hopLimit = hdr.ipv6.hopLimit - 1;
        }
        switch (next_hops.apply().action_run) {
            drop: { return; }
        }
#ifndef ROUTER
        if (hdr.ipv4.isValid()) {
            classify_v4.apply();
        } else {
            classify_v6.apply();
        }
        slices.apply();
        Outcome outcome = Outcome.FORWARDED;
        if (meta.is_limited == 1) {
            limit_slice(outcome);
            if (outcome == Outcome.MARKED) {
                mark();
            } else if (outcome != Outcome.FORWARDED) {
                drop();
            }
        }
        outcomes.count((bit<32>) (meta.slice ++ (bit<2>) outcome));
#endif
    }
}

// Runs only for packets that ingress has not dropped.
control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
#ifdef REAL_QUEUE
    // Packets that waited in an output queue for longer than their slice's limit, and are dropped after all.
    counter(SLICES, CounterType.packets_and_bytes) late;
#endif
#ifdef TELEMETRY
    action record(in bit<16> identification) {
        hdr.ipv4.hdrChecksum = checksum_after(hdr.ipv4.hdrChecksum, hdr.ipv4.identification, identification);
        hdr.ipv4.identification = identification;
    }
#endif
    apply {
#ifdef REAL_QUEUE
        // How long would a packet wait that entered the queue now? This packet waited for those that were in front of it, and
        // fewer or more are behind it.
        bit<32> waited = standard_metadata.deq_timedelta;
        bit<64> expected = (bit<64>) waited * ((bit<64>) standard_metadata.deq_qdepth + 1) /
            ((bit<64>) standard_metadata.enq_qdepth + 1);
        moment_t now = clock(standard_metadata.egress_global_timestamp);
        leaves_at.write((bit<32>) (standard_metadata.egress_port ++ standard_metadata.priority),
            later(now, from_us((bit<32>) expected)));
        if (meta.is_limited == 1 && from_us(waited) > meta.limit) {
            late.count((bit<32>) meta.slice);
            mark_to_drop(standard_metadata);
        }
#endif
#ifdef TELEMETRY
        // The record of the thesis in place of the identification: 4 bits of drops, the real and the virtual delay in ms with 6
        // bits each; with meters, the real delay with 12 bits.
        bit<32> real_ms = 0;
#if defined(REAL_QUEUE) || defined(METERS)
        real_ms = standard_metadata.deq_timedelta / 1000;
#endif
        if (hdr.ipv4.isValid() && meta.is_limited == 1) {
#ifdef METERS
            record(real_ms > 0xfff ? 0xfff : real_ms[15:0]);
#else
            bit<32> virtual_ms = to_us(meta.delay) / 1000;
            bit<6> real = real_ms > 63 ? 63 : real_ms[5:0];
            bit<6> virtual = virtual_ms > 63 ? 63 : virtual_ms[5:0];
            record(meta.drops ++ real ++ virtual);
#endif
        }
#endif
    }
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
