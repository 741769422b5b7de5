"""Shared by the generators: checksums, addresses, output files."""
import argparse, os, random, struct


def arguments(description, unit, more=lambda parser: None):
    """N, FOLDER, what `more` adds, --seed and --packets, with the generator of random numbers as `rnd`."""
    a = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("n", type=int, metavar="N", help=unit)
    a.add_argument("folder", metavar="FOLDER")
    more(a)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--packets", type=int, default=65536)
    o = a.parse_args()
    o.rnd = random.Random(o.seed)
    return o


def checksum(data):
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def mac(i):
    """A locally administered address."""
    return struct.pack("!HI", 0x0200, i)


def ipv4(source, destination, protocol, payload):
    """Header and payload."""
    header = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0, source, destination)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def write(folder, commands, frames):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "entries.cmd"), "w") as f:
        f.writelines(line + "\n" for line in commands)
    with open(os.path.join(folder, "packets.pcap"), "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i, frame in enumerate(frames):
            f.write(struct.pack("<IIII", i // 1_000_000, i % 1_000_000, len(frame), len(frame)) + frame)
