#include <core.p4>
#include <nanotransport.p4>

struct pair_t { bit<8> a; bit<8> b; }
header short_t { bit<7> a; }
header long_t { bit<9> a; bit<8> b; }
enum plain_t { A, B }
header inner_t { pair_t pair; }
header outer_t { short_t inner; }
header enum_t { plain_t kind; }
header error_t { error what; }
header int_t { int a; }
