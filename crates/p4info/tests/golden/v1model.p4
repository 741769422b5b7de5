// Everything of v1model that P4Info shows.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("p4jet.example/port", string)
type bit<9> port_t;
@p4runtime_translation("p4jet.example/vrf", 32) @role("tenant")
type bit<10> vrf_t;
type bit<48> mac_t;
enum bit<16> ether_type_t { IPV4 = 0x800, IPV6 = 0x86dd }
enum color_t { RED, GREEN }

header ethernet_t { mac_t dst; mac_t src; ether_type_t kind; }
header ipv4_t { bit<32> src; bit<32> dst; bit<8> protocol; }

@controller_header("packet_in")
header from_switch_t {
    @id(7) port_t port;
    bit<7> reason;
}
@controller_header("packet_out")
header to_switch_t { @brief("Where it goes.") bit<9> port; bit<7> _pad; }

struct headers_t { to_switch_t out_; ethernet_t ethernet; ipv4_t ip; }
struct meta_t { vrf_t vrf; port_t port; int<8> level; bool flag; }
struct learned_t { mac_t src; bit<9> port; ether_type_t kind; }
struct set_t { @match(ternary) bit<8> protocol; @id(9) bit<32> dst; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<set_t>(8) known;
    value_set<bit<8>>(4) protocols;
    state start { p.extract(h.ethernet); transition select(h.ethernet.kind) { ether_type_t.IPV4: ip; default: accept; } }
    state ip {
        p.extract(h.ip);
        transition select(h.ip.protocol, h.ip.dst) { known: accept; default: more; }
    }
    state more { transition select(h.ip.protocol) { protocols: accept; default: accept; } }
}

action drop_it(inout standard_metadata_t s) { mark_to_drop(s); }

control Counted(inout headers_t h, inout meta_t m)(bit<32> cells) {
    counter(cells, CounterType.packets_and_bytes) seen;
    @hidden action secret() {}
    action count_it(bit<32> at) { seen.count(at); }
    table inner {
        key = { m.vrf: exact; }
        actions = { count_it; secret; @tableonly NoAction; }
        size = cells;
    }
    apply { inner.apply(); }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Counted(100) first;
    @name("second.one") Counted(200) second;
    direct_counter(CounterType.bytes) hits;
    direct_meter<bit<8>>(MeterType.packets) speed;
    meter(16, MeterType.bytes) rates;
    register<bit<48>>(32) stamps;
    @max_group_size(12) @selector_size_semantics("sum_of_members") @max_member_weight(5)
    action_selector(HashAlgorithm.crc16, 64, 14) paths;
    bit<8> level_out;

    @brief("Sends it on.") @description("Over any \"port\".")
    action forward(@id(3) @brief("Port.") port_t port, @custom mac_t dst, bool flag) { s.egress_spec = (bit<9>) port; }
    action mark(color_t color) { digest<learned_t>(1, { h.ethernet.src, 1, h.ethernet.kind }); }
    action direct(bit<8> x) { level_out = x; }

    @id(0x02000005) @my_annotation("a", 2) @empty
    @structured[1, "two", true] @pairs[key = 3 * 4, other = "text"]
    table routes {
        key = {
            h.ip.dst: lpm @name("destination") @id(5);
            h.ip.src & 0xffff0000: ternary;
            h.ip.isValid(): exact;
            m.vrf: exact;
            m.port: optional;
            h.ethernet.kind: range;
        }
        actions = { forward; mark; @defaultonly drop_it(s); }
        default_action = forward((port_t) 3, (mac_t) 0x0102, true);
        counters = hits;
        meters = speed;
        support_timeout = true;
        size = 2000;
    }
    table spread {
        key = { h.ip.dst: exact; h.ip.src: selector; h.ip.protocol: selector; m.level: exact; }
        actions = { forward; NoAction; }
        implementation = paths;
    }
    table in_place {
        key = { h.ip.dst: exact; }
        actions = { NoAction; }
        @name("members") implementation = action_profile(10);
    }
    table fixed {
        key = { h.ip.protocol: ternary; h.ip.dst: lpm; h.ethernet.kind: range; m.flag: optional; m.level: exact; }
        actions = { direct; NoAction; }
        const default_action = direct(8w7);
        const entries = {
            (8w6 &&& 0x0f, 0x0a000000 &&& 0xff000000, ether_type_t.IPV4 .. ether_type_t.IPV6, true, -1): direct(1);
            (_, _, _, _, 5): NoAction();
        }
    }
    table ordered {
        key = { h.ip.protocol: ternary; }
        actions = { direct; }
        default_action = direct(0);
        largest_priority_wins = false;
        entries = {
            const priority = 10: 1: direct(1);
            priority = 20: 2: direct(2);
        }
    }
    @hidden table unseen { actions = { NoAction; } }
    table unused { actions = { NoAction; } }
    apply {
        first.apply(h, m);
        second.apply(h, m);
        routes.apply();
        spread.apply();
        in_place.apply();
        fixed.apply();
        ordered.apply();
        unseen.apply();
        direct(9);
        bit<48> t;
        stamps.read(t, 0);
        rates.execute_meter(0, level_out);
        if (false) { unused.apply(); }
    }
}

control V(inout headers_t h, inout meta_t m) { apply {} }
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); } }

@pkginfo(name = "full.p4", version = "1", organization = "p4jet", contact = "nobody", url = "https://example.org")
@brief("All of it.") @description("Over
two lines.")
@platform_property(multicast_group_table_size = 10, multicast_group_table_total_replicas = 100)
@other("x")
V1Switch(P(), V(), I(), E(), C(), D()) main;
