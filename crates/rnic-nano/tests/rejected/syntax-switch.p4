control C() {
    apply {
        switch x { }
        switch (x) { case 1: { } }
        switch (x) { _: { } }
        switch (x) { 1 { } }
        switch (x) { 1: y = 2; }
        switch (x) {
            1: { }
            default: { }
    }
}
