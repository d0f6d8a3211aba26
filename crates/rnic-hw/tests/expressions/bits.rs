//! Numbers as lists of bits, with the operators of P4_16 as its specification describes them. This module shares no
//! code with the compiler or the machine: an operator works bit by bit.

use std::cmp::Ordering;

/// A number; bit 0 is the lowest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bits(pub(super) Vec<bool>);

impl Bits {
    pub(super) fn new(value: u128, width: usize) -> Bits {
        Bits((0..width).map(|bit| value >> bit & 1 == 1).collect())
    }

    pub(super) fn width(&self) -> usize {
        self.0.len()
    }

    pub(super) fn sign(&self) -> bool {
        self.0.last().copied().unwrap_or_default()
    }

    /// Converts the number to another width: adds zeros or copies of the sign bit above it, or keeps its lowest bits.
    pub(super) fn resized(&self, width: usize, signed: bool) -> Bits {
        let above = signed && self.sign();
        Bits((0..width).map(|bit| self.0.get(bit).copied().unwrap_or(above)).collect())
    }

    pub(super) fn not(&self) -> Bits {
        Bits(self.0.iter().map(|bit| !bit).collect())
    }

    fn sum(&self, other: &Bits, mut carry: bool) -> Bits {
        let digit = |(a, b): (&bool, &bool)| {
            let ones = u8::from(*a) + u8::from(*b) + u8::from(carry);
            carry = ones > 1;
            ones % 2 == 1
        };
        Bits(self.0.iter().zip(&other.0).map(digit).collect())
    }

    pub(super) fn plus(&self, other: &Bits) -> Bits {
        self.sum(other, false)
    }

    pub(super) fn minus(&self, other: &Bits) -> Bits {
        self.sum(&other.not(), true)
    }

    pub(super) fn negated(&self) -> Bits {
        Bits::new(0, self.width()).minus(self)
    }

    pub(super) fn times(&self, other: &Bits) -> Bits {
        let mut product = Bits::new(0, self.width());
        for (place, bit) in other.0.iter().enumerate() {
            if *bit {
                product = product.plus(&self.shifted_left(place));
            }
        }
        product
    }

    /// The exact sum or difference if it fits the width, otherwise the closest number that fits.
    pub(super) fn saturated(&self, other: &Bits, subtract: bool, signed: bool) -> Bits {
        let width = self.width();
        let (a, b) = (self.resized(width + 2, signed), other.resized(width + 2, signed));
        let exact = if subtract { a.minus(&b) } else { a.plus(&b) };
        let fitting = exact.resized(width, false);
        if fitting.resized(width + 2, signed) == exact {
            return fitting;
        }
        let low = exact.sign();
        match (signed, low) {
            (false, _) => Bits(vec![!low; width]),
            (true, _) => Bits((0..width).map(|bit| low == (bit == width - 1)).collect()),
        }
    }

    pub(super) fn zip(&self, other: &Bits, op: impl Fn(bool, bool) -> bool) -> Bits {
        Bits(self.0.iter().zip(&other.0).map(|(a, b)| op(*a, *b)).collect())
    }

    /// The number as a shift count, at most 1,000.
    pub(super) fn count(&self) -> usize {
        let add = |count: usize, bit: &bool| (2 * count + usize::from(*bit)).min(1_000);
        self.0.iter().rev().fold(0, add)
    }

    pub(super) fn shifted_left(&self, count: usize) -> Bits {
        Bits((0..self.width()).map(|bit| bit >= count && self.0[bit - count]).collect())
    }

    pub(super) fn shifted_right(&self, count: usize, signed: bool) -> Bits {
        let above = signed && self.sign();
        Bits((0..self.width()).map(|bit| self.0.get(bit + count).copied().unwrap_or(above)).collect())
    }

    pub(super) fn slice(&self, low: usize, width: usize) -> Bits {
        Bits(self.0[low..low + width].to_vec())
    }

    /// `self ++ low`.
    pub(super) fn above(&self, low: &Bits) -> Bits {
        Bits([&low.0[..], &self.0].concat())
    }

    pub(super) fn compare(&self, other: &Bits, signed: bool) -> Ordering {
        if signed && self.sign() != other.sign() {
            return other.sign().cmp(&self.sign());
        }
        self.0.iter().rev().cmp(other.0.iter().rev())
    }

    /// The number with the first byte first, in whole bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).rev().collect()
    }
}

#[test]
fn bits_are_numbers() {
    let of = |value| Bits::new(value, 8);
    assert_eq!(of(200).plus(&of(100)), of(44));
    assert_eq!(of(3).minus(&of(5)), of(254));
    assert_eq!((of(17).times(&of(20)), of(1).negated()), (of(84), of(255)));
    assert_eq!((of(200).saturated(&of(100), false, false), of(3).saturated(&of(5), true, false)), (of(255), of(0)));
    assert_eq!((of(127).saturated(&of(1), false, true), of(128).saturated(&of(1), true, true)), (of(127), of(128)));
    assert_eq!((of(0x90).shifted_right(2, true), of(0x90).shifted_right(9, false)), (of(0xe4), of(0)));
    assert_eq!((of(255).compare(&of(1), true), of(255).compare(&of(1), false)), (Ordering::Less, Ordering::Greater));
    assert_eq!(Bits::new(0x123, 9).to_bytes(), [1, 0x23]);
}
