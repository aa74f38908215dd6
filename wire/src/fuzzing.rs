//! Entry points.
