// Homa-Tr: Homa over switches that cut off the payload of packets for which they have no room.

#define TRIMMING
#include "homa.p4"
