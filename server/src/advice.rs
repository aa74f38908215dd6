//! What the program advises when a folder, or a part of one, cannot be used. Whatever may lose data says so, and stands behind what loses none.

/// The whole folder cannot be used.
pub(crate) const OTHER_FOLDER: &str = "keep this folder as it is. If all other nodes are up and well (`dictum status` at one of them says so), start this one with \
    another folder, which is empty: it gets everything from them. If one of them is not, bring it back first: where two nodes have lost what they had, writes that \
    were acknowledged may be lost for good. A cluster of one has nobody to ask: restore a backup";

/// The store cannot be used, and the rest of the folder can.
pub(crate) const OTHER_STORE: &str = "keep the folder as it is, and look at it with `dictum check`, which changes nothing. If all other nodes are up and well (`dictum \
    status` at one of them says so), move the folder `store` to another place, keep it there, and start the node: the state comes from them. If one of them is not, bring \
    it back first: where two nodes have lost what they had, writes that were acknowledged may be lost for good. A cluster of one has nobody to ask: restore a backup";

/// There is no room to start.
pub(crate) const MAKE_ROOM: &str = "nothing is lost, and nothing of the folder is to be removed: free 128 MiB on that disk by removing what is not Dictum's, or enlarge \
    it, and start again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_lose_data_says_so_behind_what_does_not() {
        for advice in [OTHER_FOLDER, OTHER_STORE] {
            let at = |words: &str| advice.find(words).unwrap_or_else(|| panic!("{words}: {advice}"));
            assert!(at("keep") < at("If all other nodes are up and well"));
            assert!(at("may be lost for good") < at("restore a backup"));
        }
        assert!(MAKE_ROOM.contains("nothing of the folder is to be removed"));
    }
}
