header_type probe_t {
    fields {
        path : 8;
        seq : 16;
    }
}
header probe_t probe;
parser start {
    extract(probe);
    return ingress;
}
control ingress { }
