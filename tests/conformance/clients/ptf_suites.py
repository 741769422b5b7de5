"""Suites of the Packet Test Framework: PI's, p4-guide's for v1model, and the one of p4c's back end."""

import os
import re

from harness import Failure, Skipped, end_group, expect, last_lines, read, until


def passed(output):
    """Reads the sums that PTF prints. It counts a test case, even one with many tests in it, as one."""
    ran = re.search(r"Ran (\d+) tests?", output)
    before = output.split("PTF test finished")[0]
    expect(ran, f"no test ran: {last_lines(before, 8)}")
    failed = re.findall(r"^(?:ERROR|FAIL): (\w+\.\w+)$", output, re.M)
    if failed or not re.search(r"^OK\b", output, re.M):
        causes = re.findall(r"^(\w*(?:Error|Exception)\b.*)$", output, re.M)
        raise Failure(f"{ran[1]} tests, failed: {', '.join(failed)}: {' | '.join(causes[:3])}")
    return f"{ran[1]} tests"


class Guide:
    """p4-guide: each `runptf.sh` compiles, starts the switch and runs its tests."""

    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        scripts = []
        for directory, _, names in os.walk(self.checkout):
            # ipdk is for another target.
            if "runptf.sh" in names and "/ipdk" not in directory:
                scripts.append(os.path.relpath(directory, self.checkout))
        for directory in sorted(scripts):
            yield f"p4-guide {directory}", lambda d=directory: self.suite(d)

    def suite(self, directory):
        root = self.lab.copy(self.checkout, "p4-guide")
        self.lab.run([os.path.join(root, "bin/veth_setup.sh")], root)
        try:
            # lpmtester sends 11,000 packets, one after the other.
            seconds = 2400 if directory == "lpmtester" else 300
            _, output = self.lab.run(["./runptf.sh"], os.path.join(root, directory), seconds, check=False)
            return passed(output)
        finally:
            self.lab.run([os.path.join(root, "bin/veth_teardown.sh")], root, check=False)


class Pi:
    """PI: proto/ptf, as its README says."""

    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        yield "PI l3_host_fwd", self.suite

    def suite(self):
        root = os.path.join(self.lab.copy(self.checkout, "PI"), "proto/ptf")
        self.lab.run(["python3", "bmv2/gen_bmv2_config.py", "l3_host_fwd/l3_host_fwd.p4", "--out-bin", "config.bin",
                      "--out-p4info", "p4info.proto.txt"], root)
        self.lab.run(["bash", "bmv2/veth_setup.sh"], root)
        switch, log = self.lab.start(["bash", "bmv2/start_switch.sh"], root, "switch.log")
        try:
            wait_for_port(9559, log)
            # It installs the program. Then it looks for interfaces, for which it needs Python 2, and fails.
            _, output = self.lab.run(
                ["python3", "ptf_runner.py", "--device-config", "config.bin", "--p4info", "p4info.proto.txt", "--ptfdir",
                 "l3_host_fwd/test/", "--port-map", "bmv2/port_map.json"], root, 120, check=False)
            expect("bytes-like object" in output or "Ran " in output, last_lines(output))
            if "Ran " not in output:
                # The command that it makes next.
                interfaces = [part for port in range(8) for part in ("-i", f"{port}@veth{2 * port + 1}")]
                _, output = self.lab.run(
                    ["ptf", "--test-dir", "l3_host_fwd/test/", *interfaces,
                     "--test-params=p4info='p4info.proto.txt';grpcaddr='localhost:9559'"],
                    root, 120, env={"PYTHONPATH": root}, check=False)
            return passed(output)
        finally:
            end_group(switch)
            self.lab.run(["bash", "bmv2/veth_teardown.sh"], root, check=False)


class P4c:
    """p4c: backends/bmv2/run-bmv2-ptf-test.py with each program that has a test in Python beside it."""

    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        samples = os.path.join(self.checkout, "testdata/p4_16_samples")
        for name in sorted(os.listdir(samples)):
            # The others are for other architectures.
            if name.endswith("-bmv2.py"):
                yield f"p4c {name[:-3]}", lambda n=name: self.suite(n[:-3])

    def suite(self, name):
        root = os.path.join(self.lab.work, "p4c")
        for part in ("tools", "backends/bmv2", "backends/ebpf/targets"):
            if not os.path.isdir(os.path.join(self.checkout, part)):
                raise Skipped(f"no {part} in the checkout")
            self.lab.copy(os.path.join(self.checkout, part), os.path.join("p4c", part))
        os.makedirs(os.path.join(root, "build"), exist_ok=True)
        os.makedirs(os.path.join(root, "programs"), exist_ok=True)
        compiler = os.path.join(root, "build/p4c-bm2-ss")
        if not os.path.lexists(compiler):
            os.symlink(self.lab.p4jet, compiler)
        for suffix in (".p4", ".py"):
            source = os.path.join(self.checkout, "testdata/p4_16_samples", name + suffix)
            with open(source) as file, open(os.path.join(root, "programs", name + suffix), "w") as copy:
                copy.write(file.read())
        status, output = self.lab.run(
            ["python3", "backends/bmv2/run-bmv2-ptf-test.py", root, f"programs/{name}.p4", "--use-veth", "-ll", "INFO"],
            root, 180, check=False)
        expect(status == 0, last_lines(output))
        return passed(re.sub(r"^(?:INFO|WARNING|ERROR): ", "", output, flags=re.M))


def wait_for_port(port, log):
    """Waits until a process listens on a TCP port."""
    def listening():
        return any(f":{port:04X} " in line and " 0A " in line for name in ("tcp", "tcp6")
                   for line in read(f"/proc/net/{name}").splitlines())
    until(listening, 15, f"listening on port {port}: {last_lines(read(log))}")
