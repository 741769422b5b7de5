# Registers, counters, calculations
register_write cells 1 0x10
register_read cells 1
register_read wide
register_reset cells
counter_write seen 2 10 640
counter_read seen 2
counter_read hits 0
counter_reset seen
set_crc16_parameters calc 0x8005 0 0 true true
help table_add
switch_info
