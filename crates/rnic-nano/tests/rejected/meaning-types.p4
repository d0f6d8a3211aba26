#include <core.p4>
#include <nanotransport.p4>
const bit<0> NONE = 0;
const bit<129> WIDE = 0;
const int<200> WIDER = 0;
const bit<8> LARGE = 256;
const bit<8> NEGATIVE = -1;
const int<8> LOW = -129;
const bit<8> TEXT = true;
const bool NUMBER = 1;
const bit<8> NARROW = 16w1;
const int<8> SIGN = 8w1;
const bit<true> WIDTH = 0;
typedef int unbounded;
header odd_t { bit<3> a; bit<7> b; }
header nested_t { odd_t inner; }
struct twice_t { bit<8> x; bit<8> x; }
enum plain_t { A, B }
header enum_t { plain_t kind; error what; }
struct packet_t { packet_in packet; }
