//! Part of the semantic analysis of P4: types, and the layout of their values in slots (scalar variables).

use crate::ast;
use crate::source::Span;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A type of a value. Two struct, header or enum types are equal only if they come from the same declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    /// The type of an expression with an error that has already been reported. It is compatible with every type, so
    /// that no further errors follow.
    Error,
    /// The type of a call without a result.
    Void,
    Bool,
    Bit(u32),
    Int(u32),
    /// P4's type `int`: an integer of arbitrary precision that is known at compile time.
    Integer,
    /// P4's type `error`.
    Failure,
    Enum(u32),
    Header(u32),
    Struct(u32),
    /// A list expression `{a, b}` that has not been converted to a struct yet.
    List,
    /// An extern type, by the index of its declaration. Only parameters can have it.
    Extern(u32),
}

/// What the fields of a [`StructInfo`] are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// The named fields of a declared struct or header.
    Fields,
    /// The members of a tuple, whose names are `[0]`, `[1]` and so on.
    Tuple,
    /// The elements of a header stack, with names like those of a tuple.
    Stack,
}

/// A declared header type or struct type, a tuple type, or the type of a header stack.
pub(super) struct StructInfo {
    pub(super) name: Rc<str>,
    pub(super) shape: Shape,
    pub(super) span: Span,
    pub(super) fields: Vec<FieldInfo>,
    /// Number of slots (scalar variables) that a value of the type occupies. In a header, the slot of the validity bit
    /// comes first and is included.
    pub(super) size: u32,
    /// Total width of all fields of the type in bits; validity bits are not included.
    pub(super) bits: u64,
    /// Nesting depth of structs: 1 for a struct that contains no other struct.
    pub(super) depth: u32,
    /// Number of structs and scalars in a value of the type, including the struct itself.
    pub(super) parts: u32,
}

pub(super) struct FieldInfo {
    pub(super) name: Rc<str>,
    pub(super) ty: Type,
    /// The index of the first slot (scalar variable) of the field, relative to the first slot of the struct.
    pub(super) offset: u32,
}

/// A declared enum type.
pub(super) struct EnumInfo {
    pub(super) name: Rc<str>,
    /// The underlying type of a serializable enum; `None` for any other enum.
    pub(super) representation: Option<Type>,
    pub(super) width: u32,
    pub(super) signed: bool,
    pub(super) members: Vec<(Rc<str>, u128)>,
}

/// All types that the program declares.
#[derive(Default)]
pub(super) struct Types<'a> {
    /// The declared header types and struct types.
    pub(super) structs: Vec<StructInfo>,
    pub(super) enums: Vec<EnumInfo>,
    pub(super) externs: Vec<&'a ast::Extern>,
    /// The names of the constants of P4's type `error`, in the order of their values.
    pub(super) failures: Vec<Rc<str>>,
    /// The span of each `error` constant declared so far, by name.
    pub(super) failures_at: BTreeMap<&'a str, Span>,
}

/// A scalar within a value of a type, for example a field of a header.
pub(super) struct Leaf {
    /// The full name of the scalar, with the path to it, such as `hdr.ipv4.src`.
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) signed: bool,
    /// The index of the header type, if the scalar is the validity bit of a header; else `None`.
    pub(super) header: Option<u32>,
}

impl Types<'_> {
    /// Returns the width in bits and the signedness of a type that occupies one slot (scalar variable); `None` for
    /// other types.
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

    /// Returns the declaration of a struct type or header type; `None` for other types.
    pub(super) fn info(&self, ty: Type) -> Option<&StructInfo> {
        match ty {
            Type::Header(number) | Type::Struct(number) => self.structs.get(number as usize),
            _ => None,
        }
    }

    /// Returns the number of slots (scalar variables) that a value of the type occupies.
    pub(super) fn size(&self, ty: Type) -> u32 {
        match ty {
            Type::Error | Type::Void | Type::Integer | Type::List | Type::Extern(_) => 0,
            _ => self.info(ty).map_or(1, |info| info.size),
        }
    }

    /// Returns the total width of a value in bits, without validity bits. Returns 0 for a type without bits.
    pub(super) fn bits(&self, ty: Type) -> u64 {
        match self.scalar(ty) {
            Some((width, _)) => u64::from(width),
            None => self.info(ty).map_or(0, |info| info.bits),
        }
    }

    /// What the fields of a struct type are; `None` for other types.
    pub(super) fn shape(&self, ty: Type) -> Option<Shape> {
        match ty {
            Type::Struct(_) => self.info(ty).map(|info| info.shape),
            _ => None,
        }
    }

    /// Number of elements of a header stack or members of a tuple; 0 for other types.
    pub(super) fn elements(&self, ty: Type) -> u32 {
        match self.shape(ty) {
            Some(Shape::Stack | Shape::Tuple) => self.info(ty).map_or(0, |info| info.fields.len() as u32),
            _ => 0,
        }
    }

    pub(super) fn has_header(&self, ty: Type) -> bool {
        match ty {
            Type::Header(_) => true,
            Type::Struct(_) => self.info(ty).is_some_and(|info| info.fields.iter().any(|f| self.has_header(f.ty))),
            _ => false,
        }
    }

    /// Returns all scalars of a value of the type, in the order of their slots (scalar variables). Their names begin
    /// with `name`.
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
            let dot = if field.name.starts_with('[') { "" } else { "." };
            self.collect(field.ty, &format!("{name}{dot}{}", field.name), leaves);
        }
    }

    /// Formats a type in P4 syntax, for error messages.
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

/// Returns the number of bits, at least 1, that can represent `values` different values.
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
