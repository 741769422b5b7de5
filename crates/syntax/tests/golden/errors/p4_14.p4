header_type ethernet_t { fields { dst : 48; } }
header ethernet_t ethernet;
parser start { return ingress; }
