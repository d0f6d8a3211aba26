parser A() {
    table t { }
    state start {
        x = 1;
        transition accept
    }
    bit<8> late;
    state two {
        transition accept;
        x = 2;
    }
    state three {
        return;
        exit;
        switch (x) { }
        transition (x);
    }
    state four { transition select x { } }
    state five { transition select(x) { 1 accept; 2: accept default: } }
    state six { { transition accept; } }
    state seven { transition; }
}
