"""The exercises of p4lang/tutorials: what each README promises of the solution and of the skeleton."""

import os
import re
import shutil
import time

from harness import Failure, Mininet, end_group, expect, last_lines, read, until

DROPPED = re.compile(r"Results: (\d+)% dropped")


class Exercises:
    def __init__(self, lab, checkout):
        self.lab = lab
        self.checkout = checkout

    def cases(self):
        exercises = ["basic", "basic_tunnel", "calc", "ecn", "firewall", "flowcache", "link_monitor", "load_balance",
                     "mri", "multicast", "p4runtime", "qos", "source_routing"]
        for exercise in exercises:
            yield f"tutorials {exercise}", lambda e=exercise: getattr(self, e)(self.directory(e, True))
            yield f"tutorials {exercise} skeleton", lambda e=exercise: getattr(self, f"{e}_skeleton")(
                self.directory(e, False))
        for exercise in ["basic", "basic_tunnel"]:
            yield f"tutorials {exercise} PTF", lambda e=exercise: self.ptf(self.directory(e, False))

    def directory(self, exercise, solved):
        """Copies the checkout, with the solution over the skeleton if `solved`."""
        directory = os.path.join(self.lab.copy(self.checkout, "tutorials"), "exercises", exercise)
        if solved:
            solution = os.path.join(directory, "solution")
            for name in os.listdir(solution):
                if name.endswith((".p4", ".py")):
                    shutil.copy(os.path.join(solution, name), directory)
        return directory

    def mininet(self, directory):
        return Mininet(self.lab, ["make", "run"], directory)

    def ptf(self, directory):
        """`make test` ends with a look for switches that are still there: status 0 whatever the tests said."""
        _, output = self.lab.run(["make", "test"], directory, 150, check=False)
        ran = re.search(r"Ran (\d+) tests?", output)
        expect(ran and re.search(r"^OK$", output, re.M), "PTF: " + last_lines(re.sub(r"(?s)Cleaning up.*", "", output), 8))
        return f"{ran[1]} tests"

    # basic: hosts reach each other; the skeleton drops everything.

    def basic(self, directory):
        with self.mininet(directory) as net:
            dropped(net, 0)
            received = net.receive("h2", "./receive.py", "h2.log")
            net.do('h1 ./send.py 10.0.2.2 "P4 is cool"')
            message(received, "10.0.2.2")
            expect("P4Runtime requests sent" in net.greeting, "no greeting")

    def basic_skeleton(self, directory):
        with self.mininet(directory) as net:
            dropped(net, 100)

    # basic_tunnel: packets with a tunnel header go where it says, others by their address.

    def basic_tunnel(self, directory):
        with self.mininet(directory) as net:
            at_h2 = net.receive("h2", "./receive.py", "h2.log")
            at_h3 = net.receive("h3", "./receive.py", "h3.log")
            net.do('h1 ./send.py 10.0.2.2 "first message"')
            until(lambda: "first message" in at_h2(), 10, "untunnelled message at h2")
            expect("MyTunnel" not in at_h2(), "a tunnel header in an untunnelled message")
            net.do('h1 ./send.py 10.0.3.3 "second message"')
            until(lambda: "second message" in at_h3(), 10, "untunnelled message at h3")
            expect("second message" not in at_h2(), "h2 got the message for h3")
            net.do('h1 ./send.py 10.0.2.2 "third message" --dst_id 2')
            until(lambda: "third message" in at_h2(), 10, "tunnelled message at h2")
            expect("MyTunnel" in at_h2(), "no tunnel header in the tunnelled message")
            net.do('h1 ./send.py 10.0.3.3 "fourth message" --dst_id 2')
            until(lambda: "fourth message" in at_h2(), 10, "message for h3 in a tunnel to h2, at h2")
            expect("fourth message" not in at_h3(), "h3 got the message in a tunnel to h2")

    def basic_tunnel_skeleton(self, directory):
        # The shipped entries are those of the solution, so that installing them reports an error.
        try:
            self.mininet(directory).close()
        except Failure as failure:
            expect("myTunnel_exact" in str(failure), str(failure))
            return
        raise Failure("entries of a table that the skeleton lacks were installed")

    # calc: a header comes back with the result.

    SUMS = [("1+1", 2), ("9-4", 5), ("12&10", 8), ("12|3", 15), ("12^10", 6), ("1-2", 0xFFFFFFFF),
            ("4294967295+2", 1)]

    def calc_answers(self, directory):
        with open(os.path.join(directory, "input.txt"), "w") as file:
            file.writelines(f"{expression}\n" for expression, _ in self.SUMS)
            file.write("quit\n")
        with self.mininet(directory) as net:
            return net.do("h1 python3 calc.py < input.txt", 60)

    def calc(self, directory):
        answers = self.calc_answers(directory)
        for expression, result in self.SUMS:
            expect(re.search(rf"^(> )?{re.escape(expression)}\r?\n{result}\r?$", answers, re.M),
                   f"{expression} is not {result}: {last_lines(answers, 20)}")
        return f"{len(self.SUMS)} results"

    def calc_skeleton(self, directory):
        answers = self.calc_answers(directory)
        expect(answers.count("Didn't receive response") == len(self.SUMS), last_lines(answers))

    # ecn: the mark appears while iperf fills the link, and goes away again.

    def ecn_marks(self, directory):
        with self.mininet(directory) as net:
            received = net.receive("h2", "./receive.py", "h2.log")
            net.do("h22 iperf -s -u > h22.log 2>&1 &")
            net.do('h1 ./send.py 10.0.2.2 "P4 is cool" 30 > h1.log 2>&1 &')
            time.sleep(3)
            net.do("h11 iperf -c 10.0.2.22 -t 15 -u", 60)
            time.sleep(14)
            return re.findall(r"tos\s+= (0x[0-9a-f]+)", received())

    def ecn(self, directory):
        marks = self.ecn_marks(directory)
        expect(len(marks) > 10, f"only {len(marks)} messages at h2")
        expect(marks[0] == "0x1", f"the first message is marked: {marks}")
        expect("0x3" in marks, f"no message is marked: {marks}")
        expect(marks[-1] == "0x1", f"the last message is marked: {marks}")
        expect(set(marks) == {"0x1", "0x3"}, f"other marks: {marks}")
        return f"{marks.count('0x3')} of {len(marks)} marked"

    def ecn_skeleton(self, directory):
        marks = self.ecn_marks(directory)
        expect(len(marks) > 10, f"only {len(marks)} messages at h2")
        expect(set(marks) == {"0x1"}, f"marks of a program without ECN: {marks}")

    # firewall: connections from outside are refused unless the inside opened them.

    def firewall_flows(self, directory):
        """Returns the rates of h1 to h2, h1 to h3, and h3 to h1."""
        with self.mininet(directory) as net:
            results = [net.do(f"iperf {pair}", 60) for pair in ("h1 h2", "h1 h3")]
            net.do("h1 iperf -s > h1.log 2>&1 &")
            time.sleep(1)
            results.append(net.do("h3 timeout -k 1 8 iperf -c 10.0.1.1 -t 3", 40))
        return [re.findall(r"[\d.]+ [KMG]?bits/sec", result) for result in results]

    def firewall(self, directory):
        inside, outwards, inwards = self.firewall_flows(directory)
        expect(inside, "no flow between h1 and h2")
        expect(outwards, "no flow from h1 to h3")
        expect(not inwards, f"a flow from h3 to h1: {inwards}")
        return f"outwards {outwards[0]}"

    def firewall_skeleton(self, directory):
        flows = self.firewall_flows(directory)
        expect(all(flows), f"missing flows: {flows}")

    # flowcache: the controller learns flows from packet-ins, and forgets them after idle timeouts.

    def flowcache(self, directory):
        with self.mininet(directory) as net:
            before = net.do("h1 ping -c 2 -W 1 10.0.2.2", 20)
            expect("100% packet loss" in before, f"replies without a controller: {last_lines(before)}")
            controller, log = self.lab.start(["./mycontroller.py"], directory, "controller.log")
            try:
                until(lambda: read(log).count("Installed P4 Program") == 3, 30, f"programs: {last_lines(read(log))}")
                time.sleep(1)
                after = net.do("h1 ping -c 12 h2", 40)
                expect(replies(after) >= 8, f"{last_lines(after)} | {last_lines(read(log))}")
                until(lambda: "Received PacketIn" in read(log), 5, "packet-in")
                until(lambda: "added table entry" in read(log), 5, "entry for a flow")
                until(lambda: "Deleted flow_cache entry" in read(log), 30, f"idle timeout: {last_lines(read(log))}")
                again = net.do("h1 ping -c 5 h2", 30)
                expect(replies(again) >= 3, f"after the timeout: {last_lines(again)}")
                # The other counter counts by the address of a header that packets of the controller do not have: at 0.
                counts = re.findall(r"egressPktInCounter \d+: (\d+) packets", read(log))
                expect(any(int(count) > 0 for count in counts), f"egressPktInCounter: {counts}")
                errors = re.findall(r".*(?:gRPC [Ee]rror|Traceback|Unexpected Error).*", read(log))
                expect(not errors, f"controller: {errors[:2]} {last_lines(read(log))}")
            finally:
                end_group(controller)
            return f"{replies(after)} of 12 and {replies(again)} of 5 replies"

    def flowcache_skeleton(self, directory):
        # "define the fields in the headers; otherwise, you'll get compilation errors"
        status, output = self.lab.run(["make", "build"], directory, 60, check=False)
        expect(status != 0 and "opcode" in output, f"the skeleton compiles: {last_lines(output)}")

    # link_monitor: probes report the ports, the switches and the rates on their way.

    PATH = [(4, 1), (1, 4), (4, 1), (1, 3), (3, 3), (2, 3), (3, 2), (2, 4)]

    def link_monitor_probes(self, directory):
        with self.mininet(directory) as net:
            received = net.receive("h1", "./receive.py", "receive.log")
            net.do("h1 ./send.py > send.log 2>&1 &")
            time.sleep(3)
            rates = net.do("iperf h1 h4", 60)
            time.sleep(2)
            reported = re.findall(r"Switch (\d+) - Port (\d+): ([\d.e+-]+) Mbps", received())
        flow = [float(rate) * {"K": 1e-3, "M": 1, "G": 1e3}[unit]
                for rate, unit in re.findall(r"([\d.]+) ([KMG])bits/sec", rates)]
        expect(flow, f"iperf: {last_lines(rates)}")
        expect(reported, "no probe came back")
        return max(flow), [(int(switch), int(port), float(rate)) for switch, port, rate in reported]

    def link_monitor(self, directory):
        flow, reported = self.link_monitor_probes(directory)
        expect({switch for switch, _, _ in reported} == {1, 2, 3, 4}, f"switches: {reported[:10]}")
        most = max(rate for _, _, rate in reported)
        expect(0.3 * flow < most < 3 * flow, f"iperf measured {flow} Mbit/s, the probes at most {most:.2f}")
        return f"iperf {flow:.1f} Mbit/s, probes at most {most:.1f}"

    def link_monitor_skeleton(self, directory):
        _, reported = self.link_monitor_probes(directory)
        expect(all(port == 0 and rate == 0 for _, port, rate in reported), f"fields filled in: {reported[:5]}")

    # load_balance: both servers get some of the messages; with the skeleton, h2 all.

    def load_balance_counts(self, directory):
        with self.mininet(directory) as net:
            servers = [net.receive(host, "./receive.py", f"{host}.log") for host in ("h2", "h3")]
            for _ in range(12):
                net.do('h1 ./send.py 10.0.0.1 "P4 is cool"')
            time.sleep(2)
            return [server().count("got a packet") for server in servers]

    def load_balance(self, directory):
        counts = self.load_balance_counts(directory)
        expect(sum(counts) == 12 and min(counts) > 0, f"h2 and h3 got {counts} of 12")
        return f"h2 and h3 got {counts} of 12"

    def load_balance_skeleton(self, directory):
        counts = self.load_balance_counts(directory)
        expect(counts == [12, 0], f"h2 and h3 got {counts} of 12")

    # mri: the option lists the switches on the way, with the lengths of their queues.

    def mri_messages(self, directory):
        with self.mininet(directory) as net:
            received = net.receive("h2", "./receive.py", "h2.log")
            net.do("h22 iperf -s -u > h22.log 2>&1 &")
            net.do('h1 ./send.py 10.0.2.2 "P4 is cool" 20 > h1.log 2>&1 &')
            time.sleep(3)
            net.do("h11 iperf -c 10.0.2.22 -t 12 -u", 60)
            time.sleep(5)
            return received().split("got a packet")[1:]

    def mri(self, directory):
        messages = self.mri_messages(directory)
        expect(len(messages) > 8, f"only {len(messages)} messages at h2")
        depths = []
        for text in messages:
            expect(re.search(r"count\s+= 2", text), f"no count of 2: {last_lines(text, 12)}")
            expect(re.findall(r"swid\s+= (\d+)", text) == ["2", "1"], f"switches: {last_lines(text, 12)}")
            depths.append(int(re.findall(r"qdepth\s+= (\d+)", text)[1]))
        expect(depths[0] == 0 and max(depths) > 5, f"queue depths of s1: {depths}")
        return f"queue depths of s1: {depths[0]} to {max(depths)}"

    def mri_skeleton(self, directory):
        messages = self.mri_messages(directory)
        expect(len(messages) > 8, f"only {len(messages)} messages at h2")
        for text in messages:
            expect(re.search(r"count\s+= 0", text) and "swid" not in text, last_lines(text, 12))

    # multicast: ARP reaches the members of the group, and h4 is no member until an entry says so.

    def multicast(self, directory):
        with self.mininet(directory) as net:
            reached = {pair: replies(net.do("{} ping -c 2 -W 2 {}".format(*pair), 20)) > 0
                       for pair in (("h1", "h2"), ("h2", "h3"), ("h3", "h1"), ("h1", "h4"))}
        expect(list(reached.values()) == [True, True, True, False], f"reached: {reached}")
        self.lab.clean()
        shutil.copy(os.path.join(directory, "solution", "s1-runtime.json"), os.path.join(directory, "sig-topo"))
        with self.mininet(directory) as net:
            dropped(net, 0)

    def multicast_skeleton(self, directory):
        with self.mininet(directory) as net:
            dropped(net, 100)

    # p4runtime: a controller of its own installs programs and entries, and reads counters.

    def controller_counts(self, directory):
        """Returns the replies to 8 pings, the last value of each counter that the controller prints, and all it prints."""
        with self.mininet(directory) as net:
            before = net.do("h1 ping -c 2 -W 1 h2", 20)
            expect("100% packet loss" in before, f"replies without entries: {last_lines(before)}")
            controller, log = self.lab.start(["./mycontroller.py"], directory, "controller.log")
            try:
                until(lambda: "Reading tunnel counters" in read(log), 30, f"controller: {last_lines(read(log))}")
                after = net.do("h1 ping -c 8 -W 1 h2", 40)
                time.sleep(5)
            finally:
                end_group(controller)
            output = read(log)
        expect("gRPC Error" not in output and "Traceback" not in output, last_lines(output))
        counters = re.findall(r"(s\d) MyIngress.(\w+) (\d+): (\d+) packets", output)
        counts = {(switch, name, int(index)): int(count) for switch, name, index, count in counters}
        return replies(after), counts, output

    def p4runtime(self, directory):
        answered, counts, output = self.controller_counts(directory)
        expect("Reading tables rules for s2" in output and "MyIngress.ipv4_lpm" in output, last_lines(output))
        expect(answered >= 7, f"{answered} of 8 replies")
        expect(len(counts) == 4 and min(counts.values()) >= answered, f"counters: {counts}")
        return f"{answered} of 8 replies, counters {sorted(counts.values())}"

    def p4runtime_skeleton(self, directory):
        answered, counts, _ = self.controller_counts(directory)
        expect(answered == 0, f"{answered} replies without transit rules")
        into_tunnel = counts.pop(("s1", "ingressTunnelCounter", 100), 0)
        expect(into_tunnel >= 8, f"s1's ingress counter is {into_tunnel}")
        expect(not any(counts.values()), f"counters that should be zero: {counts}")

    # qos: the class of service depends on the protocol.

    def qos_classes(self, directory):
        with self.mininet(directory) as net:
            received = net.receive("h2", "./receive.py", "h2.log")
            classes = []
            for protocol in ("UDP", "TCP"):
                before = len(received())
                net.do(f'h1 ./send.py --p={protocol} --des=10.0.2.2 --m="P4 is cool" --dur=3', 30)
                time.sleep(1)
                # Only what h1 sent, not what h2's kernel answers: the ICMP message quotes the packet.
                packets = [text for text in received()[before:].split("got a packet")
                           if "P4 is cool" in text and "ICMP" not in text]
                expect(len(packets) == 3, f"{len(packets)} of 3 {protocol} messages at h2")
                classes.append({re.search(r"tos\s+= (0x[0-9a-f]+)", text)[1] for text in packets})
            return classes

    def qos(self, directory):
        classes = self.qos_classes(directory)
        expect(classes == [{"0xb9"}, {"0xb1"}], f"UDP and TCP have {classes}")

    def qos_skeleton(self, directory):
        classes = self.qos_classes(directory)
        expect(classes == [{"0x1"}, {"0x1"}], f"UDP and TCP have {classes}")

    # source_routing: a packet follows the route that it carries.

    def source_routing_received(self, directory):
        with open(os.path.join(directory, "input.txt"), "w") as file:
            file.write("2 3 2 2 1\n2 1\nq\n")
        with self.mininet(directory) as net:
            received = net.receive("h2", "./receive.py", "h2.log")
            net.do("h1 ./send.py 10.0.2.2 < input.txt")
            time.sleep(2)
            return re.findall(r"ttl\s+= (\d+)", received())

    def source_routing(self, directory):
        ttls = self.source_routing_received(directory)
        expect(ttls == ["59", "62"], f"TTLs {ttls}, not 59 and 62")
        return "TTL 59 by 5 hops, 62 by 2"

    def source_routing_skeleton(self, directory):
        ttls = self.source_routing_received(directory)
        expect(not ttls, f"received with TTL {ttls}")


def dropped(net, percent):
    output = net.do("pingall 1", 60)
    # Mininet counts a ping that it cannot start as dropped.
    expect("could not parse ping output" not in output, f"ping does not run: {last_lines(output)}")
    found = DROPPED.search(output)
    expect(found and int(found[1]) == percent, f"not {percent} % dropped: {last_lines(output)}")


def replies(output):
    found = re.search(r"(\d+) received", output)
    return int(found[1]) if found else 0


def message(received, address):
    until(lambda: "P4 is cool" in received(), 10, "message")
    expect(re.search(rf"dst\s+= {re.escape(address)}", received()), f"another address: {last_lines(received())}")
