set_crc16_parameters calc 0x1021 0xffff 0x0 false true
set_crc16_parameters calc 4129 65535 0 False True
set_crc16_parameters calc 0x1021 0xffff 0 0 2
set_crc32_parameters sum 0x04c11db7 0xffffffff 0xffffffff true 1

# Wrong.
set_crc32_parameters calc 1 2 3 true true
set_crc16_parameters sum 1 2 3 true true
set_crc16_parameters clac 1 2 3 true true
set_crc32_parameters nothing 1 2 3 true true
set_crc16_parameters
set_crc16_parameters calc 1 2 3 true
set_crc16_parameters calc 1 2 3 true true true
set_crc16_parameters calc 0x10000 2 3 true true
set_crc16_parameters calc 1 0x10000 3 true true
set_crc16_parameters calc 1 2 x true true
set_crc16_parameters calc 1 2 3 yes true
set_crc16_parameters calc 1 2 3 true no
set_crc32_parameters sum 0x100000000 2 3 true true
