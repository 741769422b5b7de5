# The border of a site with 198.51.100.0/24 and 2001:db8:2::/48 inside, on port 1, a provider on port 2 and a second
# one, for IPv6 only, on port 3.

# ---- who may pass, IPv4: source, destination, protocol, source port, destination port, priority (smallest wins) ----
# The rules do not know from which side a packet comes. No side has sources in 10.0.0.0/8 or 127.0.0.0/8 (RFC 2827).
table_add acl_v4 deny 10.0.0.0&&&0xff000000 0&&&0 0&&&0 0->65535 0->65535 => 1
table_add acl_v4 deny 127.0.0.0&&&0xff000000 0&&&0 0&&&0 0->65535 0->65535 => 2
# The site's servers: web, mail, names, over TCP (6) and UDP (17).
table_add acl_v4 permit 0&&&0 198.51.100.80&&&0xffffffff 6&&&0xff 0->65535 80->80 => 10
table_add acl_v4 permit 0&&&0 198.51.100.80&&&0xffffffff 6&&&0xff 0->65535 443->443 => 11
table_add acl_v4 permit 0&&&0 198.51.100.25&&&0xffffffff 6&&&0xff 0->65535 25->25 => 12
table_add acl_v4 permit 0&&&0 198.51.100.53&&&0xffffffff 17&&&0xff 0->65535 53->53 => 13
table_add acl_v4 permit 0&&&0 198.51.100.53&&&0xffffffff 6&&&0xff 0->65535 53->53 => 14
# The administrator's network reaches everything in the site.
table_add acl_v4 permit 203.0.113.128&&&0xffffffe0 198.51.100.0&&&0xffffff00 0&&&0 0->65535 0->65535 => 20
# Services are closed to everyone else: ports 1 to 1023. Not 0, which stands for packets without ports.
table_add acl_v4 deny 0&&&0 198.51.100.0&&&0xffffff00 6&&&0xff 0->65535 1->1023 => 30
table_add acl_v4 deny 0&&&0 198.51.100.0&&&0xffffff00 17&&&0xff 0->65535 1->1023 => 31

# ---- who may pass, IPv6 ----
# Link-local addresses stay on their link (RFC 4291, section 2.5.6): fe80::/10.
table_add acl_v6 deny fe80::&&&ffc0:: 0&&&0 0&&&0 0->65535 0->65535 => 1
# Extension headers that hide the ports from the rules below: hop-by-hop options, routing, destination options.
table_add acl_v6 deny 0&&&0 2001:db8:2::&&&ffff:ffff:ffff:: 0&&&0xff 0->65535 0->65535 => 2
table_add acl_v6 deny 0&&&0 2001:db8:2::&&&ffff:ffff:ffff:: 43&&&0xff 0->65535 0->65535 => 3
table_add acl_v6 deny 0&&&0 2001:db8:2::&&&ffff:ffff:ffff:: 60&&&0xff 0->65535 0->65535 => 4
table_add acl_v6 permit 0&&&0 2001:db8:2::80&&&ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 6&&&0xff 0->65535 443->443 => 10
table_add acl_v6 permit 0&&&0 2001:db8:2::53&&&ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 17&&&0xff 0->65535 53->53 => 11
table_add acl_v6 deny 0&&&0 2001:db8:2::&&&ffff:ffff:ffff:: 6&&&0xff 0->65535 1->1023 => 30
table_add acl_v6 deny 0&&&0 2001:db8:2::&&&ffff:ffff:ffff:: 17&&&0xff 0->65535 1->1023 => 31

# ---- where to: next hops have numbers ----
table_add ipv4_lpm set_next_hop 198.51.100.0/24 => 1
table_add ipv4_lpm set_next_hop 0.0.0.0/0 => 2
table_add ipv4_lpm drop 192.168.0.0/16 =>
table_add ipv6_lpm set_next_hop 2001:db8:2::/48 => 1
table_add ipv6_lpm set_next_hop ::/0 => 2
table_add ipv6_lpm set_next_hop 2001:db8:8000::/33 => 3

table_add next_hops send_to 1 => 00:00:5e:00:53:a1 1
table_add next_hops send_to 2 => 00:00:5e:00:53:a2 2
table_add next_hops send_to 3 => 00:00:5e:00:53:a3 3

# ---- our own addresses ----
table_add send_frame rewrite_mac 1 => 00:00:5e:00:53:f1
table_add send_frame rewrite_mac 2 => 00:00:5e:00:53:f2
table_add send_frame rewrite_mac 3 => 00:00:5e:00:53:f3
