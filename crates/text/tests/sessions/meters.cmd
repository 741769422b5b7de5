# Meters of an array.
meter_get_rates ingress.police 0
meter_set_rates ingress.police 0 0.125:9000 0.25:18000
meter_get_rates ingress.police 0
meter_get_rates ingress.police 1
meter_array_set_rates ingress.police 0.00001:1 1e17:0
meter_get_rates ingress.police 3
meter_set_rates ingress.police 3 0.00005:5 2:5
meter_get_rates ingress.police 3
meter_set_rates egress.police 1 0:0 0.0001:10
meter_get_rates egress.police 1
meter_set_rates egress.police 1 1:1 1:1
meter_get_rates egress.police 0x1

# A direct meter: the index is an entry's handle.
meter_get_rates color 0
meter_array_set_rates color 1:2 3:4
act_prof_create_member hops deny
table_indirect_add next_hop 1 => 0
table_indirect_add next_hop 2 => 0
meter_get_rates color 0
meter_set_rates color 0 1:2 3:4
meter_get_rates ingress.color 0
meter_array_set_rates color 5.5:2 6:4
meter_get_rates color 1
table_indirect_delete next_hop 1
meter_get_rates color 1
table_indirect_add next_hop 3 => 0
meter_get_rates color 16777217
meter_set_rates color 9 1:2 3:4

# Wrong.
meter_get_rates police 0
meter_get_rates polish 0
meter_get_rates
meter_get_rates ingress.police
meter_get_rates ingress.police x
meter_get_rates ingress.police -1
meter_get_rates ingress.police 4
meter_get_rates ingress.police 0 0
meter_set_rates ingress.police 4 1:1 2:2
meter_set_rates ingress.police 0
meter_set_rates ingress.police 0 1:1
meter_set_rates ingress.police 0 1:1 2:2 3:3
meter_set_rates ingress.police 0 2:2 1:1
meter_set_rates ingress.police 0 1 2:2
meter_set_rates ingress.police 0 1:1 2:x
meter_set_rates ingress.police 0 1:1 2:2:2
meter_set_rates ingress.police 0 1:1.5 2:2
meter_set_rates ingress.police 0 -1:1 2:2
meter_set_rates ingress.police 0 1:-1 2:2
meter_set_rates ingress.police 0 nan:1 2:2
meter_set_rates ingress.police 0 1:1 inf:2
meter_set_rates ingress.police x 1:1 2:2
meter_array_set_rates ingress.police
meter_array_set_rates ingress.police 1:1
meter_array_set_rates ingress.police 2:1 1:2
meter_array_set_rates polish 1:1 2:2
meter_array_set_rates color 2:1 1:2
meter_get_rates ingress.police 0
