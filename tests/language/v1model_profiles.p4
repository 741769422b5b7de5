// v1model: tables whose actions are members of an action profile, or of groups among which a selector chooses by hash.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> key;
    bit<8> flow;
    bit<8> result;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> value) {
        h.d.result = value;
    }
    action add(bit<8> value) {
        h.d.result = h.d.flow + value;
    }
    action_profile(16) shared;
    table first {
        key = { h.d.key: exact; }
        actions = { set; add; }
        implementation = shared;
    }
    table second {
        key = { h.d.key: ternary; }
        actions = { set; add; }
        implementation = shared;
    }
    @name("balance")
    action_selector(HashAlgorithm.crc16, 16, 4) selector;
    table third {
        key = { h.d.key: lpm; h.d.flow: selector; }
        actions = { set; add; NoAction; }
        implementation = selector;
    }
    action_selector(HashAlgorithm.identity, 16, 8) by_identity;
    table fourth {
        key = { h.d.key: exact; h.d.flow: selector; h.d.result: selector; }
        actions = { set; add; }
        implementation = by_identity;
    }
    apply {
        bool hit = false;
        switch (h.d.which) {
            1: { hit = first.apply().hit; }
            2: { hit = second.apply().hit; }
            3: { hit = third.apply().hit; }
            4: { hit = fourth.apply().hit; }
        }
        if (!hit) {
            h.d.which = 0xff;
        }
    }
}

#include "include/main.p4"
