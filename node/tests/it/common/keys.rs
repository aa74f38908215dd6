//! Keys that sign, as far as a test needs: the public key is the key.

use std::sync::Arc;

use node::{Config, NodeKey, Signer};

#[derive(Debug)]
struct Key(NodeKey);

fn signature(public: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for byte in public.iter().chain(bytes) {
        digest = (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    digest.to_be_bytes().to_vec()
}

impl Signer for Key {
    fn public(&self) -> &[u8] {
        &self.0
    }

    fn hash_of(&self, public: &[u8]) -> NodeKey {
        public.try_into().unwrap_or_default()
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        Ok(signature(&self.0, bytes))
    }

    fn is_signed(&self, public: &[u8], bytes: &[u8], claimed: &[u8]) -> bool {
        signature(public, bytes) == claimed
    }
}

/// Gives a node a key of its own, always the same one.
pub fn give_key(config: &mut Config) {
    let key = [config.me.0 as u8 + 1; 32];
    config.key = Some(key);
    config.signer = Some(Arc::new(Key(key)));
}
