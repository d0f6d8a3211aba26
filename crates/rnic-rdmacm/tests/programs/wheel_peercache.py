# The package `peercache` of PyPI, a cache of keys and values for language models: its C++ engine of two processes,
# which connects queue pairs by itself, reads and writes batches of pages, and this script compares all bytes.
import ctypes
import os
import socket
import sys
import time
import types

try:
    from peercache.transport import RdmaTransport
except ImportError as why:
    sys.exit(f"not installed: {why}")

PAGE, PAGES = 64 << 10, 64


def pattern(seed):
    return bytes((seed + index * 7) & 255 for index in range(256)) * (PAGE * PAGES // 256)


def receive(link, length):
    data = b""
    while len(data) < length:
        part = link.recv(length - len(data))
        assert part, "the other process has ended"
        data += part
    return data


def open_transport():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    settings = types.SimpleNamespace(device_name="", ib_port=1, gid_index=0, local_hostname=address, rdma_port=0,
                                     max_channels_per_peer=4)
    transport = RdmaTransport(settings)
    memory = ctypes.create_string_buffer(PAGE * PAGES)
    return transport, memory, ctypes.addressof(memory)


def serve(link):
    transport, memory, address = open_transport()
    memory[:] = pattern(1)
    region = transport.register_mr(address, PAGE * PAGES)
    endpoint = transport.local_endpoint().encode()
    link.sendall(address.to_bytes(8, "big") + region.rkey.to_bytes(4, "big") + bytes([len(endpoint)]) + endpoint)
    receive(link, 1)
    assert memory[:] == pattern(2), "write"
    link.sendall(b"x")


def use(link):
    transport, memory, address = open_transport()
    transport.register_mr(address, PAGE * PAGES)
    remote, key = int.from_bytes(receive(link, 8), "big"), int.from_bytes(receive(link, 4), "big")
    endpoint = receive(link, receive(link, 1)[0]).decode()
    offsets = [page * PAGE for page in range(PAGES)]
    batch = ([endpoint] * PAGES, [address + offset for offset in offsets], [remote + offset for offset in offsets],
             [key] * PAGES, [PAGE] * PAGES)
    assert all(transport.batch_read_v(*batch)) and memory[:] == pattern(1), "read"
    rounds, begin = 200, time.monotonic()
    for _ in range(rounds):
        assert all(transport.batch_read_v(*batch)), "read"
    rate = rounds * PAGE * PAGES * 8 / (time.monotonic() - begin) / 1e9
    memory[:] = pattern(2)
    assert all(transport.batch_write_v(*batch)), "write"
    link.sendall(b"x")
    receive(link, 1)
    print(f"{PAGES} pages read and written, {rate:.2f} Gbit/s")


here, there = socket.socketpair()
child = os.fork()
if child:
    use(there)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
serve(here)
os._exit(0)
