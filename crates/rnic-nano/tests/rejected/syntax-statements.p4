control C() {
    apply {
        x;
        x == 1;
        x + 1;
        1;
        hdr.a hdr.b;
        if x { y = 1; }
        if (x = 1) { }
        if (x { }
        else { }
        if () { }
        action a() { }
        transition accept;
        foo { }
        x = ;
        x = 1 +;
        (x = 1);
        = 1;
        hdr. = 1;
        f(1, );
    }
}
