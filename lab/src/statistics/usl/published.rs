//! A law that others have printed, to be drawn beside what is measured here.

/// A curve of throughput against nodes as it stands in print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Of which system.
    pub name: &'static str,
    /// The formula as printed.
    pub formula: &'static str,
    /// What a reader must know.
    pub remark: &'static str,
    /// λ: operations per second.
    pub lambda: f64,
    /// σ, beside (N+1) in print.
    pub sigma: f64,
    /// κ.
    pub kappa: f64,
}

/// Apache Cassandra under a stress tool, at QUORUM with replication factor 3, against nodes: the scalability report that
/// `mission.md` §6 describes.
pub const CASSANDRA: Published = Published {
    name: "Apache Cassandra, as published",
    formula: "X(N) = 10926.99·N / (1 + 2.1853·(N+1) + 0.03267·N·(N−1))",
    remark: "The printed formula has (N+1) where the Universal Scalability Law has (N−1). The curve is drawn as printed and \
             gives 3,299 operations/s for 3 nodes and 3,795 for 6; the report itself states about 5,300 for 3 to 6 nodes, \
             which is what (N−1) gives (5,889 to 5,080), so the sign is probably a misprint. A σ above 1 would mean that \
             two nodes do less than one.",
    lambda: 10_926.99,
    sigma: 2.1853,
    kappa: 0.03267,
};

impl Published {
    /// X(`n`) with (N+1), as printed.
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n + 1.0) + self.kappa * n * (n - 1.0))
    }

    /// X(`n`) with (N−1), as the law has it.
    #[must_use]
    pub fn as_the_law(&self, n: f64) -> f64 {
        super::Law { lambda: self.lambda, sigma: self.sigma, kappa: self.kappa }.at(n)
    }
}
