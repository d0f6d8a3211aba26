// Homa-Tr: Homa over switches that trim packets: a switch without room for a packet drops only the packet's payload.

#define TRIMMING
#include "homa.p4"
