//! What the parser takes and what it says of the rest.

use rnic_nano::ast::{ItemKind, Module};
use rnic_nano::parser::parse_program;
use rnic_nano::source::{SourceFile, SourceMap};

fn parse(text: &str) -> Result<(Module, SourceMap), String> {
    let main = SourceFile { name: "program.p4".into(), text: text.into() };
    parse_program(main, &|_| None)
        .map_err(|(errors, sources)| errors.iter().map(|error| error.render(&sources)).collect::<Vec<_>>().join("\n"))
}

#[test]
fn every_construct_of_the_subset_is_taken() {
    let (module, _) = parse(include_str!("accepted/every_construct.p4")).unwrap_or_else(|what| panic!("{what}"));
    let main =
        module.items.iter().filter(|item| matches!(&item.kind, ItemKind::Instance(i) if &*i.name.name == "main"));
    assert_eq!(main.count(), 1);
}
