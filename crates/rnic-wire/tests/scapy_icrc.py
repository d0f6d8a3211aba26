"""Prints one JSON line for each RoCEv2 frame of a capture file: the ICRC that scapy computes for the frame, and the
fields of the base transport header that scapy decodes. Without a file, the script only checks that the installed scapy
computes ICRCs."""

import json
import sys

try:
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.utils import rdpcap
except ImportError as error:
    sys.exit(f"scapy is missing: {error}")

if b"\0\0\0\0" == bytes(IPv6() / UDP(dport=4791) / BTH())[-4:]:
    sys.exit("this scapy computes no ICRC over IPv6; 2.8 does")

for frame in rdpcap(sys.argv[1]) if len(sys.argv) > 1 else []:
    bth = frame[BTH]
    bth.icrc = None
    fields = {name: int(bth.getfieldval(name)) for name in
              ("opcode", "solicited", "migreq", "padcount", "version", "pkey", "fecn", "becn", "dqpn", "ackreq", "psn")}
    # Scapy builds the bytes from the IP header on, because an Ethernet frame would be padded. The last four bytes are
    # the ICRC that scapy computed.
    datagram = frame[IP] if IP in frame else frame[IPv6]
    fields["icrc"] = bytes(datagram)[-4:].hex()
    print(json.dumps(fields))
