"""p4runtime-shell: as a library against a real target, at its prompt, and its own tests."""

import os
import re
import subprocess

from harness import end_group, expect, last_lines
from ptf_suites import wait_for_port

HERE = os.path.dirname(os.path.abspath(__file__))


class Shell:
    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        yield "p4runtime-shell library", self.library
        yield "p4runtime-shell prompt", self.prompt
        yield "p4runtime-shell usage", self.usage
        yield "p4runtime-shell own tests", self.own_tests

    def library(self):
        _, output = self.lab.run(["python3", os.path.join(HERE, "../p4runtime_shell.py"), self.lab.p4jet], self.lab.work)
        return f"{len(re.findall('^ok', output, re.M))} checks"

    def own_tests(self):
        """These use a server of their own; they show that the installed shell works."""
        root = self.lab.copy(self.checkout, "p4runtime-shell")
        _, output = self.lab.run(["python3", "-m", "nose2", "p4runtime_sh.test"], root, 120)
        return re.search(r"Ran \d+ tests", output)[0]

    def switch(self):
        work = os.path.join(self.lab.work, "shell")
        os.makedirs(work, exist_ok=True)
        self.lab.run(["p4c-bm2-ss", "--p4runtime-files", "usage.txtpb", "-o", "usage.json",
                      os.path.join(HERE, "usage.p4")], work)
        switch, log = self.lab.start(
            ["simple_switch_grpc", "--no-p4", "--", "--cpu-port", "510", "--grpc-server-addr", "127.0.0.1:9559"],
            work, "switch.log")
        try:
            wait_for_port(9559, log)
        except BaseException:
            end_group(switch)
            raise
        return switch, work

    def usage(self):
        """What the documents in `usage` show, as a program."""
        switch, work = self.switch()
        try:
            _, output = self.lab.run(["python3", os.path.join(HERE, "usage.py"), "127.0.0.1:9559"], work, 60)
        finally:
            end_group(switch)
        return f"{len(re.findall('^ok', output, re.M))} checks"

    def prompt(self):
        """An interactive session, from standard input."""
        switch, work = self.switch()
        commands = [
            "tables",
            'te = table_entry["I.acl"](action="I.forward")',
            "te.priority = 1",
            'te.match["meta.port"] = "1"',
            'te.action["port"] = "2"',
            "te.insert()",
            'table_entry["I.acl"].read(lambda e: print("read", e.action["port"]))',
            "te.delete()",
            "exit",
        ]
        try:
            self.lab.note("\n".join(commands))
            done = subprocess.run(
                ["python3", "-m", "p4runtime_sh", "--grpc-addr", "127.0.0.1:9559", "--device-id", "1", "--election-id",
                 "0,1", "--config", "usage.txtpb,usage.json"],
                cwd=work, env=self.lab.env, input="\n".join(commands) + "\n", text=True, timeout=60,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.lab.note(done.stdout)
        finally:
            end_group(switch)
        expect("I.acl" in done.stdout, f"no list of tables: {last_lines(done.stdout)}")
        expect("read param_id: 1" in done.stdout, f"the entry was not read: {last_lines(done.stdout)}")
        expect("Error" not in done.stdout and "Traceback" not in done.stdout, last_lines(done.stdout))
