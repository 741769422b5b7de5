// P4_16 "annotations": `@name` renames for the control plane, `@hidden`, `@tableonly`, `@defaultonly`, `@atomic`, `@noWarn`,
// `@pragma`, structured ones and unknown ones change nothing else.
#include "include/v1.p4"

@pkginfo(name = "annotations.p4", version = "1")
header data_t {
    @mine[1, 2, "three"]
    bit<8> a;
    @field_name("b") bit<8> b;
    bit<8> c;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    @name("put") action set(@name("value") bit<8> v) {
        h.d.b = v;
    }
    @name(".global") action other() {
        h.d.c = 1;
    }
    @name("lookup") @mine[key = 1]
    table t {
        key = {
            h.d.a : exact @name("first");
        }
        actions = {
            @tableonly set;
            @defaultonly other;
        }
        default_action = other();
        size = 16;
    }
    @hidden
    table u {
        actions = {
            other;
        }
        default_action = other();
    }
    apply {
        @atomic {
            t.apply();
        }
        if (h.d.a == 9) {
            u.apply();
        }
    }
}

#include "include/main.p4"
