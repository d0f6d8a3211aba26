//! Compares a capture file with the expected bytes.

use rnic_wire::pcapng::Writer;

#[test]
fn a_file_of_one_frame() {
    let mut writer = Writer::new(Vec::new(), &["h0"]).unwrap();
    writer.frame(0, 0x0001_0000_0002, b"frame").unwrap();
    let expected: [&[u8]; 3] = [
        // Section header: length 28, byte order, version 1.0, section length unknown.
        &[
            0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255,
            255, 28, 0, 0, 0,
        ],
        // Interface: length 40, Ethernet, no limit, name "h0", nanoseconds, end of options.
        &[
            1, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, b'h', b'0', 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0,
            0, 0, 0, 40, 0, 0, 0,
        ],
        // Packet: length 40, interface 0, time high and low, captured and original length, bytes, padding.
        &[
            6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, b'f', b'r', b'a',
            b'm', b'e', 0, 0, 0, 40, 0, 0, 0,
        ],
    ];
    assert_eq!(writer.finish().unwrap(), expected.concat());
}

#[test]
#[should_panic(expected = "interface 1 does not exist: the file has 1 interfaces, numbered from 0")]
fn an_unknown_interface_is_a_mistake_of_the_caller() {
    let _ = Writer::new(Vec::new(), &["h0"]).unwrap().frame(1, 0, &[]);
}
