"""Random small clouds and chains for the tests of p4jet.place."""

import dataclasses
import random

from p4jet.place.files import load_functions, load_profile, shipped_profiles
from p4jet.place.model import Chain, Cloud, Device, DeviceType, FixedSwitch, Function, Link

TYPES: dict[str, DeviceType] = {name: load_profile(name, frame_bytes=1500) for name in shipped_profiles()}
FUNCTIONS: dict[str, Function] = load_functions("thesis", entries=1)


def random_cloud(rng: random.Random, *, racks_max: int = 3, servers_max: int = 3) -> Cloud:
    """Returns a cloud in which resources, entries and links are scarce."""
    types = {
        name: dataclasses.replace(kind, entries=rng.choice([None, 4, 8]), constructs=rng.choice([12, 15, 20, kind.constructs]))
        for name, kind in TYPES.items()
    }
    cloud = Cloud("random", types)
    racks = rng.randint(1, racks_max)
    for rack in range(racks):
        tor, name = f"tor{rack}", f"rack{rack}"
        if rng.random() < 0.5:
            cloud.devices[tor] = Device(tor, "asic", name)
        else:
            cloud.switches[tor] = FixedSwitch(tor, 1.0, name)
        for server in range(rng.randint(1, servers_max)):
            host = f"{name}-server{server}"
            cloud.devices[host] = Device(host, "cpu", name)
            if rng.random() < 0.6:
                ipu = f"{name}-ipu{server}"
                cloud.devices[ipu] = Device(ipu, rng.choice(["npu", "fpga"]), name)
                cloud.links += [Link(host, ipu, rng.choice([4, 64])), Link(ipu, tor, rng.choice([3, 10]))]
                if rng.random() < 0.5:
                    cloud.links.append(Link(host, tor, rng.choice([3, 10])))
            else:
                cloud.links.append(Link(host, tor, rng.choice([3, 10])))
    fabric = rng.choice(["one", "two", "mesh"])
    if fabric == "mesh":
        cloud.links += [Link(f"tor{one}", f"tor{other}", rng.choice([3, 20])) for one in range(racks) for other in range(one)]
    for switch in {"one": ["spine1"], "two": ["spine1", "spine2"], "mesh": []}[fabric]:
        cloud.switches[switch] = FixedSwitch(switch, 0.5)
        cloud.links += [Link(f"tor{rack}", switch, rng.choice([3, 20])) for rack in range(racks)]
    cloud.check()
    return cloud


def random_chain(rng: random.Random, number: int, *, length_max: int = 4) -> Chain:
    functions = tuple(rng.choice(list(FUNCTIONS)) for _ in range(rng.randint(1, length_max)))
    return Chain(f"chain{number}", functions, rng.choice([0.5, 1, 2, 3]), rng.choice([10, 20, 60, 100, 1e6]))
