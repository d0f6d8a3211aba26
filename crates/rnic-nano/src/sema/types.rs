//! Types, and how they lie in slots.

use crate::ast;
use crate::source::Span;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A type. Two are the same if they are equal: structs, headers and enumerations by their declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    /// Of what is wrong and has been reported: it fits everywhere.
    Error,
    /// Of a call without result.
    Void,
    Bool,
    Bit(u32),
    Int(u32),
    /// A number of any size, known when the program is compiled.
    Integer,
    /// P4's `error`.
    Failure,
    Enum(u32),
    Header(u32),
    Struct(u32),
    /// `{a, b}`, not yet of any struct.
    List,
    /// An object of the architecture: only as a parameter.
    Extern(u32),
}

/// A header or struct.
pub(super) struct StructInfo {
    pub(super) name: Rc<str>,
    pub(super) span: Span,
    pub(super) fields: Vec<FieldInfo>,
    /// Slots, among them that of a header's validity: the first one.
    pub(super) size: u32,
    /// Bits of all fields, without validities.
    pub(super) bits: u64,
    /// Structs within structs, 1 without.
    pub(super) depth: u32,
    /// Structs and scalars in it, counted with itself.
    pub(super) parts: u32,
}

pub(super) struct FieldInfo {
    pub(super) name: Rc<str>,
    pub(super) ty: Type,
    /// Its first slot, counted from that of the struct.
    pub(super) offset: u32,
}

/// An enumeration.
pub(super) struct EnumInfo {
    pub(super) name: Rc<str>,
    /// Bits and signedness of its values, if it has a representation.
    pub(super) representation: Option<Type>,
    pub(super) width: u32,
    pub(super) signed: bool,
    pub(super) members: Vec<(Rc<str>, u128)>,
}

/// All declared types.
#[derive(Default)]
pub(super) struct Types<'a> {
    /// Headers and structs.
    pub(super) structs: Vec<StructInfo>,
    pub(super) enums: Vec<EnumInfo>,
    pub(super) externs: Vec<&'a ast::Extern>,
    /// Names of P4's errors, by value.
    pub(super) failures: Vec<Rc<str>>,
    /// Where those declared so far stand.
    pub(super) failures_at: BTreeMap<&'a str, Span>,
}

/// A scalar within a value.
pub(super) struct Leaf {
    /// With the dots of the way to it.
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) signed: bool,
    /// If it is a header's validity: which header.
    pub(super) header: Option<u32>,
}

impl Types<'_> {
    /// Width and signedness of what is one slot.
    pub(super) fn scalar(&self, ty: Type) -> Option<(u32, bool)> {
        match ty {
            Type::Bool => Some((1, false)),
            Type::Bit(width) => Some((width, false)),
            Type::Int(width) => Some((width, true)),
            Type::Failure => Some((width_for(self.failures.len()), false)),
            Type::Enum(number) => {
                let info = &self.enums[number as usize];
                Some((info.width, info.signed))
            }
            _ => None,
        }
    }

    /// The struct or header that a type is.
    pub(super) fn info(&self, ty: Type) -> Option<&StructInfo> {
        match ty {
            Type::Header(number) | Type::Struct(number) => self.structs.get(number as usize),
            _ => None,
        }
    }

    /// Slots of a value.
    pub(super) fn size(&self, ty: Type) -> u32 {
        match ty {
            Type::Error | Type::Void | Type::Integer | Type::List | Type::Extern(_) => 0,
            _ => self.info(ty).map_or(1, |info| info.size),
        }
    }

    /// Bits of a value, without validities; 0 for what is none.
    pub(super) fn bits(&self, ty: Type) -> u64 {
        match self.scalar(ty) {
            Some((width, _)) => u64::from(width),
            None => self.info(ty).map_or(0, |info| info.bits),
        }
    }

    pub(super) fn has_header(&self, ty: Type) -> bool {
        match ty {
            Type::Header(_) => true,
            Type::Struct(_) => self.info(ty).is_some_and(|info| info.fields.iter().any(|f| self.has_header(f.ty))),
            _ => false,
        }
    }

    /// The scalars of a value, in the order of its slots.
    pub(super) fn leaves(&self, ty: Type, name: &str) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.collect(ty, name, &mut leaves);
        leaves
    }

    fn collect(&self, ty: Type, name: &str, leaves: &mut Vec<Leaf>) {
        if let Some((width, signed)) = self.scalar(ty) {
            leaves.push(Leaf { name: name.to_string(), width, signed, header: None });
        }
        if let Type::Header(number) = ty {
            leaves.push(Leaf { name: format!("{name}.$valid"), width: 1, signed: false, header: Some(number) });
        }
        for field in self.info(ty).map_or(&[][..], |info| &info.fields) {
            self.collect(field.ty, &format!("{name}.{}", field.name), leaves);
        }
    }

    /// As a program writes it.
    pub(super) fn display(&self, ty: Type) -> String {
        match ty {
            Type::Error => "an unknown type".to_string(),
            Type::Void => "void".to_string(),
            Type::Bool => "bool".to_string(),
            Type::Bit(width) => format!("bit<{width}>"),
            Type::Int(width) => format!("int<{width}>"),
            Type::Integer => "int".to_string(),
            Type::Failure => "error".to_string(),
            Type::List => "{...}".to_string(),
            Type::Enum(number) => self.enums[number as usize].name.to_string(),
            Type::Header(number) | Type::Struct(number) => self.structs[number as usize].name.to_string(),
            Type::Extern(number) => self.externs[number as usize].name.name.to_string(),
        }
    }
}

/// Bits that tell so many values apart, at least 1.
pub(super) fn width_for(values: usize) -> u32 {
    (usize::BITS - values.saturating_sub(1).leading_zeros()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_for_a_number_of_values() {
        assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(width_for), [1, 1, 1, 2, 2, 3, 8, 9]);
    }
}
