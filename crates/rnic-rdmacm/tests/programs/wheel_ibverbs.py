# The package `ibverbs` of PyPI, which looks for libibverbs.so.1 with dlopen: two processes connect RC queue pairs,
# write, read, send and count atomically, and compare all bytes. Argument: the index of the GID.
import ctypes
import os
import socket
import sys
import time

try:
    import ibverbs as ib
except ImportError as why:
    sys.exit(f"not installed: {why}")

LENGTH = 1 << 20
ACCESS = (ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ
          | ib.AccessFlags.REMOTE_ATOMIC)


def pattern(seed):
    return bytes((seed + index * 7) & 255 for index in range(256)) * (LENGTH // 256)


def receive(link, length):
    data = b""
    while len(data) < length:
        part = link.recv(length - len(data))
        assert part, "the other process has ended"
        data += part
    return data


def run(link, first):
    context = ib.get_device_list()[0].open()
    domain, queue = context.alloc_pd(), context.create_cq(64)
    memory = ctypes.create_string_buffer(LENGTH + 8)
    address = ctypes.addressof(memory)
    start = -address % 8
    region = domain.reg_mr(address, LENGTH + 8, ACCESS)
    pair = domain.create_qp(ib.QPInitAttr(send_cq=queue, recv_cq=queue, qp_type=ib.QPType.RC))
    gid = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    info = ib.local_qp_info(pair, context.query_port(1), context.query_gid(1, gid), port=1, psn=77)
    link.sendall(info.to_bytes() + address.to_bytes(8, "big") + region.rkey.to_bytes(4, "big"))
    told = receive(link, len(info.to_bytes()) + 12)
    peer = ib.QPInfo.from_bytes(told[:-12])
    remote, key = int.from_bytes(told[-12:-4], "big"), int.from_bytes(told[-4:], "big")
    ib.connect_rc(pair, peer, port=1, sgid_index=gid, access=ACCESS, local_psn=77)

    def ready():
        link.sendall(b"x")
        receive(link, 1)

    def complete():
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for completion in queue.poll(1):
                completion.raise_for_status()
                return completion
        sys.exit("no completion within 30 s")

    def post(opcode, length, remote=remote, offset=0, **more):
        pair.post_send(ib.SendWR(wr_id=1, sg_list=[ib.SGE(region, length, offset=offset)], opcode=opcode,
                                 send_flags=ib.SendFlags.SIGNALED, remote_addr=remote, rkey=key, **more))
        complete()

    if first:
        memory[:LENGTH] = pattern(1)
        ready()
        post(ib.WROpcode.RDMA_WRITE, LENGTH)
        ready()
        ready()
        post(ib.WROpcode.RDMA_READ, LENGTH)
        assert memory[:LENGTH] == pattern(2), "read"
        post(ib.WROpcode.SEND, 5)
        ready()
        word = remote + (-remote) % 8
        for count in range(10):
            post(ib.WROpcode.ATOMIC_FETCH_AND_ADD, 8, remote=word, offset=start, compare_add=3)
            assert int.from_bytes(memory[start:start + 8], "little") == 3 * count, "atomic"
        ready()
    else:
        ready()
        ready()
        assert memory[:LENGTH] == pattern(1), "write"
        memory[:LENGTH] = pattern(2)
        pair.post_recv(ib.RecvWR(wr_id=9, sg_list=[ib.SGE(region, 64)]))
        ready()
        received = complete()
        assert received.byte_len == 5 and memory[:5] == pattern(2)[:5], "send"
        memory[start:start + 8] = bytes(8)
        ready()
        ready()
        assert int.from_bytes(memory[start:start + 8], "little") == 30, "sum"


here, there = socket.socketpair()
child = os.fork()
run(there if child else here, child != 0)
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the other process has failed: {status}"
    print("written, read, sent and counted")
