//! Replies of `data` in the words of the client's protocol.

use data::{Failure, Reply};
use wire::{Protocol, ReplyWriter};

/// Appends `reply` in the client's protocol.
pub(crate) fn write(writer: &mut ReplyWriter<'_>, reply: &Reply) {
    match reply {
        Reply::Ok => writer.ok(),
        Reply::Nil => writer.null(),
        Reply::NilArray => writer.null_array(),
        Reply::Integer(number) => writer.integer(*number),
        Reply::Bulk(bytes) => writer.bulk(bytes),
        Reply::Verbatim(text) => writer.verbatim(*b"txt", text),
        Reply::Simple(text) => writer.simple(text),
        // Whoever made it saw to it that it is one line; what is no text it shows as such.
        Reply::Status(text) => writer.simple(&String::from_utf8_lossy(text)),
        Reply::Error(failure) => error(writer, failure),
        Reply::Array(items) => {
            writer.array(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        Reply::Set(items) => {
            writer.set(items.len());
            items.iter().for_each(|item| write(writer, item));
        }
        Reply::Map(pairs) => {
            writer.map(pairs.len());
            for (key, value) in pairs {
                write(writer, key);
                write(writer, value);
            }
        }
        Reply::Named(pairs) if writer.protocol() == Protocol::Resp3 => {
            writer.map(pairs.len());
            for (name, value) in pairs {
                write(writer, name);
                write(writer, value);
            }
        }
        Reply::Named(pairs) => lists_of_two(writer, pairs),
        Reply::Pairs(pairs) if writer.protocol() == Protocol::Resp3 => lists_of_two(writer, pairs),
        Reply::Pairs(pairs) => {
            writer.array(pairs.len() * 2);
            for (one, other) in pairs {
                write(writer, one);
                write(writer, other);
            }
        }
        Reply::ByDialect(replies) => {
            let [resp2, resp3] = &**replies;
            write(writer, if writer.protocol() == Protocol::Resp3 { resp3 } else { resp2 });
        }
        Reply::Double(number) => writer.double(*number),
        Reply::Decimal(number) if writer.protocol() == Protocol::Resp3 => writer.double(*number),
        Reply::Decimal(number) => writer.bulk(Reply::decimal_text(*number).as_bytes()),
        Reply::Boolean(truth) => writer.boolean(*truth),
    }
}

fn lists_of_two(writer: &mut ReplyWriter<'_>, pairs: &[(Reply, Reply)]) {
    writer.array(pairs.len());
    for (one, other) in pairs {
        writer.array(2);
        write(writer, one);
        write(writer, other);
    }
}

/// Appends an error.
pub(crate) fn error(writer: &mut ReplyWriter<'_>, failure: &Failure) {
    writer.error(&failure.to_string());
}
