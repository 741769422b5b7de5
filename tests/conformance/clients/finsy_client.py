"""finsy: its tests against a real target, and its examples in Mininet."""

import os
import re
import shutil

from harness import Failure, end_group, expect, last_lines
from ptf_suites import wait_for_port

# Example, folder of its program, program, option; as in examples/tools/compile_all.sh.
PROGRAMS = [
    ("basic", "basic/p4", "basic.p4", None),
    ("flowcache", "flowcache/p4", "flowcache.p4", None),
    ("hello", "hello/p4", "hello.p4", None),
    ("int", "int/p4/int_v1.0", "int.p4", "-DBMV2=1"),
    ("l2switch", "l2_switch/p4", "l2_switch.p4", None),
    ("ngsdn", "ngsdn/ngsdn/p4", "main.p4", None),
    ("simple", "simple/p4", "simple_router.p4", None),
    ("tunnel", "tunnel/p4", "advanced_tunnel.p4", None),
    ("mtls", "hello/p4", "hello.p4", None),
    ("tls_demo", "hello/p4", "hello.p4", None),
]


class Finsy:
    def __init__(self, lab, checkout, python):
        self.lab = lab
        self.checkout = checkout
        self.python = python

    def cases(self):
        for tests in ("test_switch", "test_controller", "test_p4client"):
            yield f"finsy tests/{tests}", lambda t=tests: self.tests(t)
        for example, *_ in PROGRAMS:
            yield f"finsy example {example}", lambda e=example: self.example(e)

    def pytest(self, arguments, cwd, seconds, env):
        command = [self.python, "-m", "pytest", "-q", "--no-header", "-rf", "-p", "no:cacheprovider"]
        _, output = self.lab.run([*command, *arguments], cwd, seconds, env=env, check=False)
        found = re.search(r"(\d+) passed", output)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?", output, re.M)
        if failed:
            raise Failure("; ".join(f"{name.split('::')[-1]}: {why[:160]}" for name, why in failed))
        expect(found, f"nothing passed: {last_lines(output)}")
        return f"{found[1]} tests"

    def tests(self, name):
        """The tests take the address of a server from the environment. They send no program with P4Info, so that the
        switch must have one already."""
        root = self.lab.copy(self.checkout, "finsy")
        program = os.path.join(root, "program")
        os.makedirs(program)
        shutil.copy(os.path.join(root, "examples/basic/p4/basic.p4"), program)
        self.lab.run(["p4c", "--target", "bmv2", "--arch", "v1model", "basic.p4"], program)
        switch, log = self.lab.start(
            ["simple_switch_grpc", "basic.json", "--device-id", "1", "--", "--grpc-server-addr", "127.0.0.1:9559"],
            program, "switch.log")
        try:
            wait_for_port(9559, log)
            return self.pytest([f"tests/{name}.py"], root, 120, {"FINSY_TEST_P4RUNTIME_TARGET": "127.0.0.1:9559"})
        finally:
            end_group(switch)

    def example(self, name):
        """finsy runs its examples in Mininet without a container where it finds its own switch class for Mininet."""
        root = self.lab.copy(self.checkout, "finsy")
        examples = os.path.join(root, "examples")
        custom = "/usr/local/mininet/custom"
        os.makedirs(custom, exist_ok=True)
        shutil.copy(os.path.join(root, "ci/demonet/p4switch.py"), custom)
        os.makedirs("/etc/stratum", exist_ok=True)
        with open("/etc/stratum/dummy.json", "w") as file:
            file.write("{}")
        _, folder, program, option = next(row for row in PROGRAMS if row[0] == name)
        info = f"{os.path.splitext(program)[0]}.p4info.txtpb"
        self.lab.run(["p4c", "--output", ".", "--p4runtime-files", info, *([option] if option else []), program],
                     os.path.join(examples, folder))
        return self.pytest([f"tests/test_{name}.py"], examples, 240, {"PYTHONPATH": root})
