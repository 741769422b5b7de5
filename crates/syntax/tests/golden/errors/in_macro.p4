#define FIELD(name) bit<8> name
#define BAD x = ; y
header h { FIELD(a); FIELD(); }
action a() {
    BAD
}
