#includ <core.p4>
#foo
#pragma once
#if 1
#elif 2
#else
#endif
#include
#include core.p4
#include <v1model.p4>
#include "missing.p4"
#define
#define F(x) x
#define bit int
#define A 1
#define A 2
#undef
#undef A B
#ifdef
#endif
#ifdef A
#else more
#else
#endif A
#endif
#else
#error this cannot be
