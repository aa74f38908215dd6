//! Commands on keys of any type, and on all keys together.
