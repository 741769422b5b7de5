#!/usr/bin/env python3
"""Programs a p4jet with the helpers of the p4lang tutorials (utils/p4runtime_lib), unmodified, as `make run` does without Mininet.

    python3 tests/conformance/tutorials_p4runtime.py target/release/p4jet CHECKOUT_OF_THE_TUTORIALS [EXERCISE…]

Python needs the packages that tests/conformance/p4runtime_shell.py names. For each exercise with a solution and files `sN-runtime.json`,
p4jet compiles the solution as p4c-bm2-ss, starts one simple_switch_grpc per file, and the helper programs it. Prints one line for
each file; the status is 1 if one failed.
"""
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import types

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def device_config():
    """The module `p4.tmp.p4config_pb2`, which PyPI's packages lack."""
    file = descriptor_pb2.FileDescriptorProto(name="p4config.proto", package="p4.tmp", syntax="proto3")
    message = file.message_type.add(name="P4DeviceConfig")
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="reassign", number=1, type=field.TYPE_BOOL, label=field.LABEL_OPTIONAL)
    message.field.add(name="device_data", number=3, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
    module = types.ModuleType("p4.tmp.p4config_pb2")
    module.P4DeviceConfig = message_factory.MessageFactory(pool).GetPrototype(descriptor)
    package = types.ModuleType("p4.tmp")
    package.p4config_pb2 = module
    sys.modules["p4.tmp"], sys.modules["p4.tmp.p4config_pb2"] = package, module


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def exercise(folder, tools, work):
    """Returns how many files were tried, and how many failed."""
    tried = failed = 0
    build = os.path.join(work, "build")
    os.makedirs(build, exist_ok=True)
    for source in glob.glob(os.path.join(folder, "solution", "*.p4")):
        name = os.path.basename(source)[:-3]
        p4info, blob = f"build/{name}.p4.p4info.txtpb", f"build/{name}.json"
        line = [os.path.join(tools, "p4c-bm2-ss"), "--p4v", "16", "--p4runtime-files", p4info, "-o", blob, source]
        subprocess.run(line, cwd=work, check=True)
    from p4runtime_lib.simple_controller import program_switch

    for path in sorted(glob.glob(os.path.join(folder, "**", "s*-runtime.json"), recursive=True)):
        with open(path) as file:
            conf = json.load(file)
        if not os.path.exists(os.path.join(work, conf["p4info"])):
            continue
        tried += 1
        port = free_port()
        line = [os.path.join(tools, "simple_switch_grpc"), "--device-id", "0", conf["bmv2_json"], "--"]
        line += ["--grpc-server-addr", f"0.0.0.0:{port}", "--cpu-port", "510"]
        child = subprocess.Popen(line, cwd=work, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with socket.socket() as ready:
                    if ready.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            dump = os.path.join(work, "requests.txt")
            with open(path) as file:
                program_switch(f"127.0.0.1:{port}", 0, file, work, dump, {})
            print("ok", path, flush=True)
        except (Exception, SystemExit) as error:
            failed += 1
            print("FAILED", path, repr(error)[:500], flush=True)
        finally:
            child.terminate()
            child.wait(timeout=5)
    return tried, failed


def main():
    p4jet, checkout, wanted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    device_config()
    sys.path.insert(0, os.path.join(checkout, "utils"))
    tried = failed = 0
    with tempfile.TemporaryDirectory() as tools:
        for name in ["p4c-bm2-ss", "simple_switch_grpc"]:
            os.symlink(p4jet, os.path.join(tools, name))
        for folder in sorted(glob.glob(os.path.join(checkout, "exercises", "*"))):
            if wanted and os.path.basename(folder) not in wanted:
                continue
            with tempfile.TemporaryDirectory() as work:
                try:
                    counts = exercise(folder, tools, work)
                except subprocess.CalledProcessError as error:
                    counts = (1, 1)
                    print("FAILED", folder, error, flush=True)
            tried, failed = tried + counts[0], failed + counts[1]
    print(f"{tried} tried, {failed} failed")
    sys.exit(1 if failed or not tried else 0)


if __name__ == "__main__":
    main()
