header_union u_t { h_t a; }
bit<8> generic<T>(in T x) { return 1; }
header v_t { varbit<320> options; }
struct s_t { h_t[] stack; tuple<> two; string name; list<bit<8>> all; match_kind kind; }
value_set<bit<8>>(4) known;
extern E { abstract void f(in bit<8> x); }
control C(in bit<8> x = 1) { apply { } }
control D()(bit<8> size) { apply { } }
control F<T>(in T x) { apply { } }
parser P()(bit<8> size) { }
parser Q<T>(in T x) { }
Register<bit<8>>(16) r = { void f() { } };
const .top_t A = 1;
@pragma inline always
const bit<8> B = 1;
@name["text"] const bit<8> C = 1;
