// Drives a Verilated bench: reads batches of steps from standard input, writes their results to standard output.
//
// A batch is a 32-bit number of steps (0 ends the program) and the words of each step. The answer is the number of
// cycles from the first step to the last result, and the words of each result. All numbers have the byte order of the
// machine. With an argument, the signals are written into this VCD file.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "Vbench.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

static void receive(void* to, size_t bytes) {
    if (bytes && fread(to, bytes, 1, stdin) != 1) exit(1);
}

static void transmit(const void* from, size_t bytes) {
    if (bytes && fwrite(from, bytes, 1, stdout) != 1) exit(1);
}

int main(int argc, char** argv) {
    VerilatedContext context;
    Vbench bench{&context};
    uint64_t time = 0;
#if VM_TRACE
    VerilatedVcdC vcd;
    context.traceEverOn(true);
    bench.trace(&vcd, 99);
    if (argc > 1) vcd.open(argv[1]);
    if (argc > 1 && !vcd.isOpen()) {
        fprintf(stderr, "cannot write %s\n", argv[1]);
        return 2;
    }
#endif
    const size_t in_bytes = sizeof(bench.in), out_bytes = sizeof(bench.out);
    std::vector<char> in, out;
    auto edge = [&](int clk) {
        bench.clk = clk;
        bench.eval();
#if VM_TRACE
        if (vcd.isOpen()) vcd.dump(time);
#endif
        time += 1;
    };
    bench.in_valid = 0;
    memset(&bench.in, 0, in_bytes);
    for (int cycle = 0; cycle < 16; cycle++) edge(0), edge(1);
    for (;;) {
        uint32_t steps = 0;
        receive(&steps, sizeof steps);
        if (steps == 0) break;
        in.resize(steps * in_bytes);
        out.resize(steps * out_bytes);
        receive(in.data(), in.size());
        uint32_t sent = 0, received = 0, cycles = 0, idle = 0;
        while (received < steps) {
            bench.in_valid = sent < steps;
            if (sent < steps) memcpy(&bench.in, in.data() + in_bytes * sent, in_bytes);
            edge(0);
            sent += bench.in_valid && bench.in_ready;
            edge(1);
            cycles++;
            if (bench.out_valid) {
                memcpy(out.data() + out_bytes * received++, &bench.out, out_bytes);
                idle = 0;
            } else if (++idle > 300000) {
                fprintf(stderr, "no result for 300000 cycles after step %u\n", received);
                return 3;
            }
        }
        bench.in_valid = 0;
        edge(0);
        transmit(&cycles, sizeof cycles);
        transmit(out.data(), out.size());
        fflush(stdout);
    }
#if VM_TRACE
    if (vcd.isOpen()) vcd.close();
#endif
    return 0;
}
