# Port 0 is outside, port 1 inside, where 192.0.2.0/24 is: DNS to its server, high UDP ports and TCP to all, anything from it.
table_add rules permit 0.0.0.0&&&0.0.0.0 192.0.2.53&&&255.255.255.255 17&&&0xff 53->53 => 10
table_add rules drop 0.0.0.0&&&0.0.0.0 192.0.2.66&&&255.255.255.255 0&&&0 0->65535 => 5
table_add rules permit 0.0.0.0&&&0.0.0.0 192.0.2.0&&&255.255.255.0 17&&&0xff 1024->65535 => 20
table_add rules permit 0.0.0.0&&&0.0.0.0 192.0.2.0&&&255.255.255.0 6&&&0xff 0->65535 => 20
table_add rules permit 192.0.2.0&&&255.255.255.0 0.0.0.0&&&0.0.0.0 0&&&0 0->65535 => 30
