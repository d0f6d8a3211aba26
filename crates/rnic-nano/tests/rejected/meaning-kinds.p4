#include <core.p4>
#include <nanotransport.p4>

typedef ACK ack_t;
typedef DualPort dual_t;
typedef nic_t<bit<8>> wrong_t;
typedef int any_t;
struct object_t { packet_in packet; Ingress ingress; }
const packet_in PACKET = 1;
const bit<8> TEXT = nic_t;
const bit<8> VALUE = ACK.x;
const bit<8> MEMBER = nic_t.mac;
const bit<8> FIELD = { 1, 2 }.x;
const object_t OBJECT = { 1, 2 };
enum DualPort kinds_t { A = 1 }
extern bit<8> make();
make() object;
DualPort<bit<32>>(size = 3, 4) twelve;
DualPort<bit<32>>(_) thirteen;
