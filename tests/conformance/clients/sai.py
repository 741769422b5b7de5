"""sonic-pins: every instantiation of SAI P4 compiles, has the P4Info that sonic-pins expects, is installed, enforces
its constraints and exchanges packets with the controller."""

import os

from harness import end_group, expect, last_lines
from ptf_suites import wait_for_port


class Sai:
    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        folder = os.path.join(self.checkout, "sai_p4/instantiations/google")
        for name in sorted(os.listdir(folder)):
            # unioned_p4info.pb.txt is the union of the others, of no program.
            if name.endswith(".p4info.pb.txt"):
                instantiation = name[: -len(".p4info.pb.txt")]
                yield f"sonic-pins {instantiation}", lambda i=instantiation: self.instantiation(folder, i)
        yield "sonic-pins other programs", self.others

    def instantiation(self, folder, name):
        work = os.path.join(self.lab.work, "sai")
        os.makedirs(work, exist_ok=True)
        self.compile(os.path.join(folder, f"{name}.p4"), work, name)
        self.compile(os.path.join(folder, f"{name}.p4"), work, f"{name}-bmv2", ["-DPLATFORM_BMV2"])
        switch, log = self.lab.start(
            ["simple_switch_grpc", "--no-p4", "--", "--cpu-port", "510", "--grpc-server-addr", "127.0.0.1:9559"],
            work, "switch.log")
        try:
            wait_for_port(9559, log)
            check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sai_check.py")
            status, output = self.lab.run(
                ["python3", check, "127.0.0.1:9559", name, os.path.join(folder, f"{name}.p4info.pb.txt")], work, 120, check=False)
        finally:
            end_group(switch)
        expect(status == 0, last_lines(output, 4))
        return last_lines(output, 1)

    def compile(self, program, work, name, options=()):
        self.lab.run(
            ["p4c-bm2-ss", *options, "--p4runtime-files", f"{name}.txtpb", "-o", f"{name}.json", program], work)

    def others(self):
        """The programs of p4_fuzzer, p4_symbolic and p4_pdpi only compile: the checkout has no P4Info of them."""
        work = os.path.join(self.lab.work, "sai")
        os.makedirs(work, exist_ok=True)
        compiled = 0
        for part in ("p4_fuzzer", "p4_symbolic", "p4_infra"):
            for directory, _, names in os.walk(os.path.join(self.checkout, part)):
                for name in names:
                    path = os.path.join(directory, name)
                    if name.endswith(".p4") and "V1Switch" in open(path).read():
                        self.compile(path, work, "other")
                        compiled += 1
        expect(compiled > 0, "no programs")
        return f"{compiled} programs"
