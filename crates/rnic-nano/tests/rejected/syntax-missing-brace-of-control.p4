control A() {
    apply {
        if (x) {
            y = 1;
    }
}

control B() {
    apply { }
}
