/* A ring of messages, and sums of large vectors over all ranks (allreduce), each value of which is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, ranks, token = 0, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 10; round++) {
        if (rank == 0) {
            token = round;
            MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        }
        MPI_Recv(&token, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0) wrong += token != round + ranks - 1;
        else {
            token++;
            MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        }
    }
    size_t count = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000) / sizeof(long);
    long *mine = malloc(count * sizeof(long)), *sum = malloc(count * sizeof(long));
    for (size_t i = 0; i < count; i++) mine[i] = (long)i * (rank + 1);
    MPI_Allreduce(mine, sum, (int)count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < count; i++) wrong += sum[i] != (long)i * ranks * (ranks + 1) / 2;
    if (rank == 0) printf("%d ranks, %zu bytes, %d wrong\n", ranks, count * sizeof(long), wrong);
    MPI_Finalize();
    return wrong != 0;
}
