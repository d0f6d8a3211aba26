control A() {
    apply {
        x = 1;
    }
