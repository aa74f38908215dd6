//! What commands with subcommands (`OBJECT`, `MEMORY`) have in common.

use crate::commands::prelude::*;

/// The key of a subcommand that takes one: the argument after the subcommand's name.
pub(crate) const KEY: Keys = Keys::Range { first: 2, last: 2, step: 1 };

/// The description of a read-only subcommand.
pub(crate) const fn spec(
    group: Group,
    name: &'static str,
    arity: i32,
    keys: Keys,
    arguments: &'static str,
    summary: &'static str,
) -> Spec {
    Spec {
        name,
        arity,
        flags: Flags::READONLY,
        keys,
        group,
        since: "4.0.0",
        complexity: "O(1)",
        summary,
        arguments,
        example: "",
        subcommands: &[],
    }
}

/// The subcommand that argument 1 names, if it exists and takes so many arguments.
pub(crate) fn find(container: &'static Spec, args: Args<'_>) -> Result<&'static Spec, Failure> {
    let wanted = args.get(1)?;
    let own_name =
        |spec: &Spec| spec.name.split('|').next_back().is_some_and(|name| wanted.eq_ignore_ascii_case(name.as_bytes()));
    let Some(found) = container.subcommands.iter().find(|spec| own_name(spec)) else {
        return Err(Failure::unknown_subcommand(&container.name.to_ascii_uppercase(), wanted));
    };
    if found.arity_fits(args.len()) { Ok(found) } else { Err(found.wrong_arity()) }
}
