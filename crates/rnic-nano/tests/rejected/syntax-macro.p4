#define WIDTH 8w300
#define SEMICOLON
#define SUM(a) a
#define OPEN {
header h_t OPEN
    bit<8> a SEMICOLON
}
const bit<8> B = OPEN;
