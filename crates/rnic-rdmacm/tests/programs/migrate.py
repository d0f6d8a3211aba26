"""Moves a virtual machine of qemu to another process over RDMA, and compares their memory. Ends with "verified".

Usage: migrate.py FOLDER chunks|pinned; the folder exists.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

FOLDER, MODE = sys.argv[1:]
URI = "rdma:127.0.0.1:4444"
RAM = 64 << 20
# Half of the memory has random bytes; qemu does not send pages of zeros.
FILLED = slice(16 << 20, 48 << 20)


class Machine:
    def __init__(self, name, *options):
        self.name = name
        address = f"{FOLDER}/{name}.qmp"
        line = "qemu-system-x86_64 -accel tcg -m 64 -display none -nodefaults -S -qmp"
        self.log = open(f"{FOLDER}/{name}.log", "w+")
        self.process = subprocess.Popen(
            [*line.split(), f"unix:{address},server=on,wait=off", *options], stdout=self.log, stderr=subprocess.STDOUT
        )
        while True:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(address)
                break
            except OSError:
                connection.close()
                if self.process.poll() is not None:
                    self.fail("it has ended")
                time.sleep(0.02)
        self.stream = connection.makefile("rw")
        self.stream.readline()
        self.call("qmp_capabilities")

    def fail(self, why):
        self.log.seek(0)
        sys.exit(f"{self.name}: {why}: {self.log.read()}")

    def call(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        for line in self.stream:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                self.fail(f"{command}: {answer['error']}")
        self.fail(f"{command}: it has ended")

    def memory(self):
        path = f"{FOLDER}/{self.name}.memory"
        self.call("pmemsave", val=0, size=RAM, filename=path)
        with open(path, "rb") as file:
            return file.read()


# Ends a run that hangs, whose machines are then killed below.
signal.alarm(100)
signal.signal(signal.SIGALRM, lambda *_: sys.exit("the migration has not ended after 100 s"))
random = os.urandom(FILLED.stop - FILLED.start)
with open(f"{FOLDER}/random", "wb") as file:
    file.write(random)
machines = []
try:
    loader = f"loader,file={FOLDER}/random,addr={FILLED.start},force-raw=on"
    source = Machine("source", "-device", loader)
    machines.append(source)
    target = Machine("target", "-incoming", "defer")
    machines.append(target)
    for machine in machines:
        pinned = {"capability": "rdma-pin-all", "state": MODE == "pinned"}
        machine.call("migrate-set-capabilities", capabilities=[pinned])
    source.call("migrate-set-parameters", **{"max-bandwidth": 100 << 30})
    target.call("migrate-incoming", uri=URI)
    source.call("migrate", uri=URI)
    while (state := source.call("query-migrate"))["status"] not in ("completed", "failed"):
        time.sleep(0.05)
    if state["status"] != "completed":
        source.fail(f"the migration has failed: {state}")
    while target.call("query-migrate").get("status") != "completed":
        time.sleep(0.05)
    before, after = source.memory(), target.memory()
    if before[FILLED] != random:
        sys.exit("the source has not loaded the file")
    if before != after:
        sys.exit("the target's memory is not the source's")
    target.call("cont")
    if target.call("query-status")["status"] != "running":
        target.fail("it does not run")
    print(f"migrated {state['ram']['transferred']} bytes at {state['ram']['mbps']} Mbit/s")
finally:
    for machine in machines:
        machine.process.kill()
        machine.process.wait()
print("verified")
