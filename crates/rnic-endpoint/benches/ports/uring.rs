//! Batches by io_uring: several messages with one system call.

use super::{BATCHES, Failure, Receiving, Sending, Shape};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use nix::libc;
use nix::sys::socket::{SockaddrIn, SockaddrLike as _};
use std::os::fd::RawFd;

/// The structures that the kernel reads during a call for one message. It does not move while a call is in progress.
struct Message {
    header: libc::msghdr,
    slice: libc::iovec,
    /// Control message with the length of a datagram.
    control: [u64; 3],
    to: SockaddrIn,
}

impl Message {
    fn empty(to: SockaddrIn) -> Message {
        let slice = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: a message header whose bytes are all zero is valid: it has no address, slices or control messages.
        let header = unsafe { std::mem::zeroed() };
        Message { header, slice, control: [0; 3], to }
    }

    fn sending(&mut self, data: &[u8], shape: Shape) {
        self.slice = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
        let level_and_kind = (libc::SOL_UDP as u64) | (libc::UDP_SEGMENT as u64) << 32;
        // The length of the control message: its header and two bytes.
        self.control = [16 + 2, level_and_kind, shape.segment as u64];
        self.header.msg_name = std::ptr::from_mut(&mut self.to).cast();
        self.header.msg_namelen = self.to.len();
        self.header.msg_iov = &raw mut self.slice;
        self.header.msg_iovlen = 1;
        self.header.msg_control = self.control.as_mut_ptr().cast();
        self.header.msg_controllen = size_of_val(&self.control);
    }

    fn receiving(&mut self, buffer: &mut [u8]) {
        self.slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        self.header.msg_iov = &raw mut self.slice;
        self.header.msg_iovlen = 1;
    }
}

/// Submits the entries, and waits for the result of each. With zero copy, the kernel also sends notifications. They are
/// ignored, because the sent bytes never change.
fn carry_out(ring: &mut IoUring, entries: &[squeue::Entry]) -> Result<Vec<i32>, Failure> {
    for entry in entries {
        // SAFETY: the messages and buffers to which the entries refer live until their results are there.
        unsafe { ring.submission().push(entry)? };
    }
    let mut results = Vec::with_capacity(entries.len());
    while results.len() < entries.len() {
        ring.submit_and_wait(1)?;
        let found = ring.completion().filter(|entry| !cqueue::notif(entry.flags())).map(|entry| entry.result());
        results.extend(found);
    }
    Ok(results)
}

pub(super) fn ways(
    from: RawFd, to: RawFd, destination: SockaddrIn, zero_copy: bool,
) -> Result<(Sending<'static>, Receiving<'static>), Failure> {
    let mut sender = IoUring::new(64)?;
    let mut messages: Box<[Message]> = (0..BATCHES).map(|_| Message::empty(destination)).collect();
    let send: Sending<'static> = Box::new(move |data, shape| {
        messages.iter_mut().for_each(|message| message.sending(data, shape));
        let entries: Vec<squeue::Entry> = messages
            .iter()
            .map(|message| match zero_copy {
                true => opcode::SendMsgZc::new(types::Fd(from), &raw const message.header).build(),
                false => opcode::SendMsg::new(types::Fd(from), &raw const message.header).build(),
            })
            .collect();
        let results = carry_out(&mut sender, &entries)?;
        match results.iter().find(|result| **result != data.len() as i32) {
            None => Ok(()),
            Some(result) => Err(format!("a batch of {} bytes was sent with the result {result}", data.len()).into()),
        }
    });

    let mut receiver = IoUring::new(64)?;
    let mut buffers = vec![vec![0u8; 65_535]; BATCHES];
    let mut messages: Box<[Message]> = (0..BATCHES).map(|_| Message::empty(destination)).collect();
    let receive: Receiving<'static> = Box::new(move || {
        let mut bytes = 0;
        loop {
            for (message, buffer) in messages.iter_mut().zip(&mut buffers) {
                message.receiving(buffer);
            }
            let entry = |message: &mut Message| {
                let receive = opcode::RecvMsg::new(types::Fd(to), &raw mut message.header);
                receive.flags(libc::MSG_DONTWAIT as u32).build()
            };
            let entries: Vec<squeue::Entry> = messages.iter_mut().map(entry).collect();
            let results = carry_out(&mut receiver, &entries)?;
            bytes += results.iter().filter(|result| **result > 0).map(|result| *result as usize).sum::<usize>();
            if results.contains(&-libc::EAGAIN) {
                return Ok(bytes);
            }
            if let Some(error) = results.iter().find(|result| **result < 0) {
                return Err(std::io::Error::from_raw_os_error(-error).into());
            }
        }
    });
    Ok((send, receive))
}
