//! etcd by its gRPC interface (etcd.io, "etcd API", `etcdserverpb`), of which this has two calls: `KV.Put`, and `KV.Range` for one key,
//! linearizable as it is by default. The messages are written down by hand, so that no compiler for them is needed; fields that are not
//! used are left out, as the encoding allows.

use std::str::FromStr;
use std::time::Duration;

use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::store::Store;

/// How long a connection may take to open.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Its fields (the header) are not looked at: the call succeeds or is an error.
#[derive(Clone, PartialEq, prost::Message)]
struct PutResponse {}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// One connection to one node; its streams are shared by some clients, as etcd's own benchmark tool has it.
#[derive(Clone)]
pub struct Etcd {
    channel: Channel,
}

impl Etcd {
    /// One call.
    async fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut calls = tonic::client::Grpc::new(self.channel.clone());
        calls.ready().await.map_err(|error| format!("not connected: {error}"))?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = calls.unary(tonic::Request::new(question), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| format!("{:?} {}", status.code(), status.message()))
    }
}

impl Store for Etcd {
    fn open(address: &str) -> Result<Etcd, String> {
        let endpoint = Endpoint::from_str(&format!("http://{address}"))
            .map_err(|error| format!("`{address}` is no address: {error}"))?
            .connect_timeout(CONNECT_PATIENCE)
            .tcp_nodelay(true);
        Ok(Etcd { channel: endpoint.connect_lazy() })
    }

    async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        self.call::<_, PutResponse>("/etcdserverpb.KV/Put", PutRequest { key, value }).await.map(|_| ())
    }

    async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", RangeRequest { key }).await?;
        Ok(answer.kvs.into_iter().next().map(|found| found.value))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// Bytes as `protoc --encode=etcdserverpb.PutRequest` has them: each field's number and kind, its length, and its bytes.
    #[test]
    fn messages_are_encoded_as_etcd_reads_them() {
        let request = PutRequest { key: b"k".to_vec(), value: b"vv".to_vec() };
        assert_eq!(request.encode_to_vec(), b"\x0a\x01k\x12\x02vv");
        // A header (field 1), one pair (field 2) with a revision (field 2) that is not looked at, and the count.
        let bytes = b"\x0a\x02\x18\x05\x12\x08\x0a\x01k\x10\x07\x2a\x01v\x20\x01";
        let answer = RangeResponse::decode(&bytes[..]).unwrap();
        assert_eq!((answer.count, answer.kvs[0].value.as_slice()), (1, &b"v"[..]));
    }
}
