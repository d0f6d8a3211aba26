control C() {
    apply {
        x += 1;
        x <<= 1;
        x >>= 1;
        x |+|= 1;
        x++;
        for (bit<8> i = 0; i < 4; i = i + 1) { x = i; }
        break;
        return x;
        Counter(4) c;
        h_t[4] stack;
        tuple<bit<8>> t;
        x = (1, 2);
        x = { 1, ... };
        x = ...;
        hdr = {#};
        x = "text";
        x = this.y;
        x = stack[i];
        static_assert(true);
    }
}
