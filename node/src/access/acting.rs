//! Connections whose user somebody else has let in: those that HTTP opens in the name of its clients' users, and those of clients that have shown a certificate.

use std::sync::Arc;

use super::compiled::bucket_selected;
use super::{AccessControl, User, bucket_name};
use crate::door::ConnectionId;
use crate::node::Node;
use crate::session::Session;

/// Commands by which HTTP says how an order is to be carried out, and asks what came of it. They are HTTP's own and go with every order, which is judged by itself;
/// they tell nothing but of that.
const BESIDE_ORDERS: [&str; 4] = ["dictum.age", "dictum.consistency", "dictum.durability", "dictum.token"];

impl AccessControl {
    /// A user that a connection may become.
    fn get_on(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.get(name).filter(|user| user.rules.is_on)
    }
}

impl Node {
    /// A connection inside of the process acts for this user from now on. If there is none, its commands are refused: the user was there when its client was let in.
    pub(crate) fn act_for(&mut self, connection: ConnectionId, name: &[u8]) {
        let found = self.access.get_on(name).cloned();
        let default = Arc::clone(self.access.default());
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        session.acts_for_user = true;
        session.authenticated = found.is_some();
        session.has_logged_in = found.is_some();
        session.become_user(found.unwrap_or(default));
    }

    /// A client speaks TLS. Its certificate may make it a user; a name that is no user's makes nothing of it, as if it had shown none.
    pub(crate) fn on_secured(&mut self, connection: ConnectionId, terms: String, name: Option<&str>) {
        let found = name.and_then(|name| self.access.get_on(name.as_bytes())).cloned();
        let Some(Some(session)) = self.sessions.get_mut(&connection) else { return };
        session.tls = Some(terms.into());
        if let Some(user) = found.filter(|_| !session.is_inside) {
            session.authenticated = true;
            session.has_logged_in = true;
            session.become_user(user);
        }
    }
}

/// The bucket that decides of a command that HTTP sends beside its clients' orders; none for all other commands, and all other connections.
pub(super) fn bucket_of(node: &Node, session: &Session, words: &[&[u8]]) -> Option<String> {
    let (name, rest) = words.split_first().filter(|_| session.acts_for_user)?;
    match rest {
        [bucket] if name.eq_ignore_ascii_case(b"select") => Some(bucket_selected(bucket)),
        _ => {
            let is_beside = BESIDE_ORDERS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
            is_beside.then(|| bucket_name(node, session))
        }
    }
}
