extern Balancer {
    Balancer();
    abstract bit<4> pick(in bit<32> address);
    abstract void reset();
}
Balancer() missing = { void reset() {} };
Balancer() wrong = { bit<8> pick(in bit<32> address) { return 1; } void reset() {} };
Balancer() extra = { bit<4> pick(in bit<32> address) { return 1; } void reset() {} void more() {} };
control Work() { apply { this.x(); } }
