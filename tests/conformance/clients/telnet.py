#!/usr/bin/python3
"""Stands in for telnet, by which Mininet 2.3 asks whether an iperf server listens. Mininet then waits for the server's report of
that connection, which iperf 2.1 makes only if data came."""

import socket
import sys
import time

address, port = sys.argv[-2:]
try:
    with socket.create_connection((address, int(port)), timeout=2) as connection:
        connection.sendall(bytes(65536))
        time.sleep(0.5)
        print("Connected to", address)
except OSError as error:
    print("No connection:", error)
