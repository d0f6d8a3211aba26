// Homa-Tr: Homa for switches that trim packets. If the queue has no room for a packet, such a switch drops only the
// packet's payload.

#define TRIMMING
#include "homa.p4"
