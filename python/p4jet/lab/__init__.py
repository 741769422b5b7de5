"""p4jet.lab: networks from a file, and experiments with switches.

    from p4jet.lab import Lab, Topology

    with Lab(Topology.load("pair.toml")) as lab:
        print(lab.node("h1").run(["ping", "-c1", "10.0.0.2"]).stdout)

:class:`Topology` describes a network, :class:`Lab` brings it up in Linux namespaces, :class:`Node` runs programs in it. The
command is `p4jet-lab`. docs/lab.md has the file format and the types of switches.
"""

from .errors import LabError
from .network import Lab, Node, Process
from .topology import Host, Link, Switch, Topology

__all__ = ["Host", "Lab", "LabError", "Link", "Node", "Process", "Switch", "Topology"]
