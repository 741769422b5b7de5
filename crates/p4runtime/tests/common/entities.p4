// One object of every kind that P4Runtime writes and reads.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("p4jet.example/vrf", string)
type bit<10> vrf_t;
@p4runtime_translation("p4jet.example/label", 32)
type bit<12> label_t;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t { bit<32> src; bit<32> dst; bit<8> protocol; bit<8> ttl; bit<16> port; }

struct headers_t { ethernet_t ethernet; ipv4_t ip; }
struct cell_t { bit<9> port; bit<48> mac; }
struct meta_t { vrf_t vrf; label_t label; bit<1> flag; bit<8> class; bit<8> hash; bit<2> color; bit<128> wide; }
struct learned_t { bit<48> src; bit<9> port; }
struct known_t { @match(ternary) bit<8> protocol; bit<32> dst; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<known_t>(4) known;
    value_set<bit<16>>(2) kinds;
    state start {
        p.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x800: ip; kinds: ip; default: accept; }
    }
    state ip {
        p.extract(h.ip);
        transition select(h.ip.protocol, h.ip.dst) { known: marked; default: accept; }
    }
    state marked { m.flag = 1; transition accept; }
}

control V(inout headers_t h, inout meta_t m) { apply {} }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) seen;
    counter(4, CounterType.packets) few;
    meter(8, MeterType.bytes) rates;
    register<bit<48>>(8) stamps;
    register<cell_t>(4) cells;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) speed;
    @max_group_size(6) action_selector(HashAlgorithm.crc16, 16, 14) paths;
    @selector_size_semantics("sum_of_members") @max_member_weight(5) @max_group_size(3)
    action_selector(HashAlgorithm.crc16, 8, 14) members_counted;
    action_profile(4) fixed_actions;

    action drop_it() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    action send(bit<9> port, bit<48> dst) { s.egress_spec = port; h.ethernet.dst = dst; }
    @action_restriction("class != 0; class < 200 || class == 255")
    action classify(bit<8> class) { m.class = class; }
    action measured(bit<9> port) { s.egress_spec = port; speed.read(m.color); }
    action tag(label_t label) { m.label = label; digest<learned_t>(1, { h.ethernet.src, s.ingress_port }); }

    table l2 {
        key = { h.ethernet.dst: exact; }
        actions = { forward; send; @tableonly classify; @defaultonly drop_it; NoAction; }
        default_action = drop_it();
        size = 65536;
    }
    table routes {
        key = { m.vrf: exact; h.ip.dst: lpm; }
        actions = { forward; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    table lpm_only {
        key = { h.ip.dst: lpm; }
        actions = { forward; NoAction; }
        size = 200000;
    }
    @entry_restriction("ttl::mask == 0 || protocol == 6;
        ::priority > 9")
    table acl {
        key = {
            h.ip.src: ternary @name("src");
            h.ip.protocol: optional @name("protocol");
            h.ip.ttl: ternary @name("ttl");
            h.ip.port: range @name("port");
            m.flag: exact @name("flag");
        }
        actions = { forward; classify; drop_it; NoAction; }
        size = 40000;
    }
    table aged {
        key = { h.ethernet.src: exact; }
        actions = { measured; forward; NoAction; }
        counters = hits;
        meters = speed;
        support_timeout = true;
        size = 64;
    }
    table labels {
        key = { m.label: ternary; m.wide: exact; }
        actions = { tag; NoAction; }
        size = 64;
    }
    table spread {
        key = { h.ip.dst: exact; h.ip.src: selector; h.ip.protocol: selector; }
        actions = { forward; drop_it; NoAction; }
        implementation = paths;
        size = 64;
    }
    table counted {
        key = { h.ip.dst: exact; h.ip.src: selector; }
        actions = { forward; NoAction; }
        implementation = members_counted;
        size = 64;
    }
    table indirect {
        key = { h.ip.dst: exact; }
        actions = { forward; NoAction; }
        implementation = fixed_actions;
        size = 64;
    }
    table constant {
        key = { h.ip.protocol: ternary; }
        actions = { classify; NoAction; }
        default_action = NoAction();
        const entries = {
            6 &&& 0x0f: classify(1);
            17: classify(2);
            _: classify(3);
        }
    }
    table started {
        key = { h.ip.port: exact; }
        actions = { classify; NoAction; }
        size = 4;
        entries = { const 1: classify(1); 2: classify(2); }
    }
    @p4runtime_role("operator")
    table owned {
        key = { h.ip.port: exact; }
        actions = { forward; NoAction; }
        size = 16;
    }
    table keyless {
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    apply {
        seen.count((bit<32>) s.ingress_port);
        few.count(0);
        rates.execute_meter((bit<32>) s.ingress_port, m.color);
        stamps.write(0, s.ingress_global_timestamp);
        cell_t cell;
        cells.read(cell, 1);
        cell.mac = h.ethernet.src;
        cells.write(1, cell);
        l2.apply();
        aged.apply();
        labels.apply();
        started.apply();
        owned.apply();
        keyless.apply();
        if (h.ip.isValid()) {
            routes.apply();
            lpm_only.apply();
            acl.apply();
            spread.apply();
            counted.apply();
            indirect.apply();
            constant.apply();
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); p.emit(h.ip); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
