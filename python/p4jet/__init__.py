"""p4jet: a P4 switch inside a Python program.

    import p4jet

    switch = p4jet.Switch("programs/basic_l2/basic_l2.p4")
    switch.table("forward").insert(["02:00:00:00:00:02"], "set_dest", port=2)
    print(switch.send("eth dst=02:00:00:00:00:02 / ip / udp", port=1))

* :class:`Program` compiles P4_16: its tables, actions, P4Info and complexity.
* :class:`Switch` runs it: entries and state by name, packets in and out, traces, a virtual clock.
* :class:`Network` joins switches and hosts by links, in virtual time.
* :func:`run_stf` runs packet tests. The pytest plugin adds the fixture ``p4jet_switch`` and assertions.
"""

from . import _native
from .errors import CompileError, Diagnostic, P4jetError, StfError, SwitchError
from .network import Host, Network, Received
from .packets import Burst, Packet, Sent
from .program import Action, Complexity, KeyField, Param, Program, Table
from .switch import (
    CounterControl,
    Digest,
    Entry,
    MeterControl,
    ProfileControl,
    RegisterControl,
    Switch,
    TableControl,
    ValueSetControl,
    run_stf,
)
from .trace import Trace

__version__: str = _native.version()

__all__ = [
    "Action",
    "Burst",
    "CompileError",
    "Complexity",
    "CounterControl",
    "Diagnostic",
    "Digest",
    "Entry",
    "Host",
    "KeyField",
    "MeterControl",
    "Network",
    "P4jetError",
    "Packet",
    "Param",
    "ProfileControl",
    "Program",
    "Received",
    "RegisterControl",
    "Sent",
    "StfError",
    "Switch",
    "SwitchError",
    "Table",
    "TableControl",
    "Trace",
    "ValueSetControl",
    "run_stf",
    "__version__",
]
