#include <core.p4>
#include <nanotransport.p4>
struct meta_t { }
