//! paxos
