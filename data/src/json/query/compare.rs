//! Comparisons of filters. Bytes and values that are compared pay.

use super::Operator;
use super::walk::Worth;
use crate::json::Json;
use crate::meter::Meter;

/// Whether a comparison holds. Only numbers, and only texts, have an order; what is of the same type and neither less nor the same is greater.
pub(super) fn is_passed(left: Worth<'_>, by: Operator, right: Worth<'_>, meter: &Meter) -> bool {
    let equal = || match (left, right) {
        (Worth::Nothing, Worth::Nothing) => true,
        (Worth::Nothing, _) | (_, Worth::Nothing) => false,
        (Worth::Value(left), Worth::Value(right)) => same(left, right, meter),
        _ => matches!((as_number(left), as_number(right)), (Some(left), Some(right)) if left == right),
    };
    let less = || match (left, right) {
        (Worth::Value(Json::String(left)), Worth::Value(Json::String(right))) => {
            meter.bytes(left.len().min(right.len()));
            left < right
        }
        _ => matches!((as_number(left), as_number(right)), (Some(left), Some(right)) if left < right),
    };
    match by {
        Operator::Equal => equal(),
        Operator::NotEqual => !equal(),
        Operator::Less => less(),
        Operator::LessOrEqual => is_same_type(left, right) && (less() || equal()),
        Operator::Greater => is_same_type(left, right) && !less() && !equal(),
        Operator::GreaterOrEqual => is_same_type(left, right) && !less(),
    }
}

fn as_number(worth: Worth<'_>) -> Option<f64> {
    match worth {
        Worth::Number(number) => Some(number as f64),
        Worth::Value(value) => value.as_f64(),
        Worth::Nothing => None,
    }
}

/// Two that are nothing are of no type.
fn is_same_type(left: Worth<'_>, right: Worth<'_>) -> bool {
    match (left, right) {
        (Worth::Value(left), Worth::Value(right)) => std::mem::discriminant(left) == std::mem::discriminant(right),
        _ => as_number(left).is_some() && as_number(right).is_some(),
    }
}

/// Whether two values are written with the same numbers and texts; members in any order. Ends when the meter does, with any answer.
fn are_equal(left: &Json, right: &Json, meter: &Meter) -> bool {
    if !meter.visit(0) {
        return false;
    }
    match (left, right) {
        (Json::String(left), Json::String(right)) => {
            left.len() == right.len() && meter.bytes(left.len()) && left == right
        }
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| are_equal(left, right, meter))
        }
        (Json::Object(left), Json::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| {
                    meter.bytes(name.len());
                    right.get(name).is_some_and(|other| are_equal(value, other, meter))
                })
        }
        _ => left == right,
    }
}

/// Whether two values are the same to a filter: numbers by what they are worth, but inside arrays and objects by how they are written.
fn same(left: &Json, right: &Json, meter: &Meter) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => left.as_f64() == right.as_f64(),
        _ => are_equal(left, right, meter),
    }
}
