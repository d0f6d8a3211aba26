control C() {
    table a {
        key = { x; y exact; z: ; }
        actions = { f, g; }
        size;
        size = 4;
        size = 5;
        const key = { }
    }
    table b {
        keys = { x: exact; }
        action = { f; }
        implementation = p;
        default_action = ;
    }
    table c {
        const entries = {
            1, 2: f();
            (1, 2) f();
            1: ;
            const 1: f();
            priority = 3: 1: f();
            1: .f();
        }
        1 = 2;
    }
    table d {
        size 16;
        default_action f;
        entries { }
        default_action = f
    }
    apply { }
}
