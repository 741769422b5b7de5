show_pvs
pvs_get pairs
pvs_add value_set 9
pvs_add value_set 9
pvs_get value_set
pvs_add pairs 0x12345
pvs_add parser.pairs 0x01 0x002
pvs_get pairs
pvs_add masked 0x80
pvs_add masked 0x80&&&0xf0
pvs_get masked
pvs_remove pairs 0x1002
pvs_remove pairs 0x1002
pvs_get pairs
pvs_remove masked 0x80&&&0xf0
pvs_get masked
pvs_clear pairs
pvs_get pairs

# Wrong.
pvs_add value_set 10
pvs_add value_set 256
pvs_add value_set x
pvs_add value_set -1
pvs_add value_set
pvs_add value_set 1 2
pvs_add pairs 0x100000
pvs_add pairs 1 0x1000
pvs_add pairs 1 2 3
pvs_add masked 0x80/8
pvs_add value_sets 1
pvs_add
pvs_remove value_set 256
pvs_remove value_set
pvs_remove nothing 1
pvs_get
pvs_get nothing
pvs_get value_set 1
pvs_clear
pvs_clear nothing
pvs_clear value_set 1
show_pvs x
pvs_get value_set
