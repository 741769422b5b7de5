# Three hops of a chain: a firewall on port 1, a translator on port 2, a router on port 3.
table_add hops to_next_hop 00:00:5e:00:53:01 => 00:00:5e:00:53:a1 1
table_add hops to_next_hop 00:00:5e:00:53:02 => 00:00:5e:00:53:a2 2
table_add hops to_next_hop 00:00:5e:00:53:03 => 00:00:5e:00:53:a3 3
