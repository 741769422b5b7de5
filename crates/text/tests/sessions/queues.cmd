show_queues
set_queue_depth 64
set_queue_depth 10 1
set_queue_depth 5 1 3
set_queue_rate 1000
set_queue_rate 0 2
set_queue_rate 7 1 0
set_queue_bitrate 1000000 2 1
set_queue_weight 3 1 2
set_port_rate 5000 1
set_port_bitrate 10000000 2
set_port_bitrate 0 2
show_queues

# Wrong.
set_queue_depth
set_queue_depth x
set_queue_depth -1
set_queue_depth 4294967296
set_queue_depth 1 x
set_queue_depth 1 2 8
set_queue_depth 1 2 3 4
set_queue_rate
set_queue_rate x
set_queue_bitrate
set_queue_weight 10001
set_port_rate
set_port_rate 1 2 3
set_port_bitrate 1 x
show_queues 1
