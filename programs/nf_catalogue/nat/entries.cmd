# The inside is on port 0: 10.0.0.5:1000 appears outside, on port 1, as 203.0.113.1:40000.
table_add translations translate_source 10.0.0.5&&&255.255.255.255 1000&&&0xffff 0.0.0.0&&&0.0.0.0 0&&&0 => 203.0.113.1 40000 1 1
table_add translations translate_destination 0.0.0.0&&&0.0.0.0 0&&&0 203.0.113.1&&&255.255.255.255 40000&&&0xffff => 10.0.0.5 1000 0 1
table_add translations translate_source 10.0.0.6&&&255.255.255.255 2000&&&0xffff 0.0.0.0&&&0.0.0.0 0&&&0 => 203.0.113.1 40001 1 1
table_add translations translate_destination 0.0.0.0&&&0.0.0.0 0&&&0 203.0.113.1&&&255.255.255.255 40001&&&0xffff => 10.0.0.6 2000 0 1
