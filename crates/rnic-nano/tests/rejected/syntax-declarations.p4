bit<8> variable = 1;
bit<8> other;
bit<8> twice(in bit<8> x) { return x + x; }
void nothing() { }
table t { }
if (x) { }
state start { }
return;
typedef struct { bit<8> a; } s_t;
