//! `/metrics`: the node's own figures and HTTP's, in the text format of OpenMetrics.
//!
//! The node counts, and says so in `INFO` and `DICTUM.STATUS`; nothing is counted a second time here. The journal's syncs, which the node does
//! not see, the journal counts. What the node
//! does not tell is left out rather than given as zero.

mod commands;
mod exposition;
mod machine;
mod tables;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::health::{fetch_info, fetch_status};
use super::login::Caller;
use super::problem::Problem;
use super::request::Query;
use crate::audit::Audit;
use crate::journal::sync_times::{BOUNDS, SyncTimes};
use crate::status::{ClusterStatus, NodeStatus, PartitionStatus};
use exposition::Exposition;
use tables::{BUCKET_METRICS, INFO_METRICS};

/// Upper bounds of the latency histogram, in seconds.
const LATENCY_BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What HTTP counts of itself.
#[derive(Default)]
pub(super) struct HttpCounts {
    routes: Mutex<BTreeMap<RouteKey, RouteCounts>>,
}

/// Method, route and status: all from small fixed sets, so the table cannot be made to grow.
type RouteKey = (&'static str, String, u16);

#[derive(Clone, Default)]
struct RouteCounts {
    requests: u64,
    seconds: f64,
    buckets: [u64; LATENCY_BOUNDS.len()],
}

impl HttpCounts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RouteKey, RouteCounts>> {
        // Nothing that runs under this lock can panic half way through a change.
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, key: RouteKey, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut routes = self.lock();
        let counts = routes.entry(key).or_default();
        counts.requests += 1;
        counts.seconds += seconds;
        for (bucket, bound) in counts.buckets.iter_mut().zip(LATENCY_BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

/// Counts every request: until its answer begins.
pub(super) async fn count(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    api.counts.count((method, route, response.status().as_u16()), begun.elapsed());
    response
}

/// Figures for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    responses((status = 200, description = "Text format of OpenMetrics, version 1.0.0.", body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    Query::parse(&uri, &[])?;
    let status = fetch_status(&api, &caller, api.pool.patience()).await?;
    let mut text = Exposition::default();
    write_status(&mut text, &status);
    if let Some(info) = if_there(fetch_info(&api, &caller).await)? {
        write_info(&mut text, &info);
        if let Some(histograms) = if_there(api.read(&caller, &[b"LATENCY", b"HISTOGRAM"]).await)? {
            commands::write(&mut text, &histograms, &fields_of(&info));
        }
    }
    write_journal(&mut text, &api.options.journal_syncs);
    machine::write(&mut text, &api.options.dir);
    write_http(&mut text, &api.counts);
    text.family("dictum_http_auth_failures_total", "counter", "Wrong passwords, and names of no user, over HTTP.");
    text.sample(&[], api.guesses.count());
    write_audit(&mut text, api.auditor.trail());
    let text = text.into_text().expect("a string takes all text");
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}

/// Nothing where the node does not answer: the rest is still worth a scrape. But a user who may not ask is told so, and does not take a part for the whole.
fn if_there<T>(answer: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match answer {
        Err(problem) if problem.status == StatusCode::FORBIDDEN => Err(problem),
        answer => Ok(answer.ok()),
    }
}

fn write_audit(out: &mut Exposition, audit: &Audit) {
    let figures = audit.figures();
    let text = "Records that were written to the audit trail since the start.";
    out.one("dictum_audit_records_total", "counter", text, figures.records());
    let text = "Writes and syncs of the audit trail that have failed.";
    out.one("dictum_audit_errors_total", "counter", text, figures.errors());
    let text = "Events that found no room in the audit trail: too many, or the disk has failed.";
    out.one("dictum_audit_left_out_total", "counter", text, figures.left_out());
    let text = "Whether the last attempt to write to the audit trail has failed.";
    out.one("dictum_audit_failing", "gauge", text, u8::from(figures.is_failing()));
}

fn write_status(out: &mut Exposition, status: &ClusterStatus) {
    out.family("dictum_node_info", "gauge", "The node that answers; always 1.");
    out.sample(&[("node", &status.node), ("version", &status.version)], 1);
    out.family("dictum_has_leader", "gauge", "Whether the node knows a leader that it can reach.");
    out.sample(&[], u8::from(status.has_leader()));
    if let Some(round) = status.ballot.as_ref().and_then(|ballot| ballot.split('.').next()?.parse::<u64>().ok()) {
        out.family("dictum_ballot_round", "gauge", "Round of the leadership's ballot: grows with every election.");
        out.sample(&[], round);
    }
    // Left out while the node knows of no partition which nodes vote in it.
    if let Some(failures) = status.failures_borne {
        const HELP: &str = "How many more nodes may fail, in the partition that bears fewest.";
        out.one("dictum_failures_borne", "gauge", HELP, failures);
    }
    write_partitions(out, status);
    out.nodes(status, "dictum_node_up", "Whether the node can be reached from here.", |node| {
        Some(u8::from(node.up || node.me))
    });
    out.nodes(status, "dictum_node_leads", "Whether the node leads.", |node| {
        Some(u8::from(status.leader.as_ref() == Some(&node.name)))
    });
    out.family("dictum_node_role", "gauge", "The node's role; always 1.");
    for node in &status.nodes {
        let role = if node.up || node.me { node.role.as_str() } else { "unknown" };
        out.sample(&[("node", &node.name), ("role", role)], 1);
    }
    let known = |node: &NodeStatus, figure: Option<u64>| figure.filter(|_| node.up || node.me);
    let is_known = |node: &NodeStatus| node.up || node.me;
    out.nodes(
        status,
        "dictum_log_decided_position",
        "Position up to which the node knows the log to be decided.",
        |node| known(node, node.decided),
    );
    out.nodes(status, "dictum_log_persisted_position", "Position up to which the node's disk has the log.", |node| {
        known(node, node.persisted)
    });
    out.nodes(status, "dictum_log_applied_position", "Position up to which the node has applied the log.", |node| {
        known(node, node.applied)
    });
    out.nodes(
        status,
        "dictum_log_lag_entries",
        "Decided entries that the node has not applied, in the partition where it is furthest behind.",
        |node| known(node, node.lag),
    );
    out.nodes(status, "dictum_disk_full", "Whether the node's disk has no room.", |node| {
        (is_known(node) && node.disk != "unknown" && !node.disk.is_empty()).then(|| u8::from(node.disk == "full"))
    });
    out.nodes(status, "dictum_disk_low", "Whether the node's disk has too little room for writes that grow.", |node| {
        (is_known(node) && node.disk != "unknown" && !node.disk.is_empty())
            .then(|| u8::from(node.disk == "low" || node.disk == "full"))
    });
    out.nodes(status, "dictum_node_slow", "Whether the node finds itself slower than the others.", |node| {
        (is_known(node) && !node.slow.is_empty()).then(|| u8::from(node.slow != "no"))
    });
    out.nodes(
        status,
        "dictum_clock_outside",
        "Whether the node's clock is outside of what a majority agrees on.",
        |node| {
            (is_known(node) && !node.clock.is_empty() && node.clock != "unknown")
                .then(|| u8::from(node.clock == "outside"))
        },
    );
    out.nodes(status, "dictum_clock_ahead_seconds", "By how much the node's clock is ahead of this one's.", |node| {
        node.clock_ahead_ms.map(|ms| ms as f64 / 1000.0)
    });
    out.nodes(status, "dictum_link_secured", "Whether this node's link to the node is under TLS.", |node| {
        (!node.link.is_empty()).then(|| u8::from(node.link == "tls"))
    });
    out.nodes(status, "dictum_node_seen_seconds_ago", "Seconds since the node was last heard of.", |node| {
        node.seen_ms_ago.map(|ms| ms as f64 / 1000.0)
    });
}

/// Each partition as the node that answers knows it.
fn write_partitions(out: &mut Exposition, status: &ClusterStatus) {
    let labelled = |value: &dyn Fn(&PartitionStatus) -> Option<u64>| -> Vec<(String, String, u64)> {
        let of = |it: &PartitionStatus| Some((it.name.clone(), it.index.to_string(), value(it)?));
        status.partitions.iter().filter_map(of).collect()
    };
    let mut family = |name: &str, help: &str, value: &dyn Fn(&PartitionStatus) -> Option<u64>| {
        out.family(name, "gauge", help);
        for (bucket, index, value) in labelled(value) {
            out.sample(&[("bucket", &bucket), ("partition", &index)], value);
        }
    };
    family("dictum_partition_has_leader", "Whether this node knows who leads the partition.", &|it| {
        Some(u64::from(it.leader.is_some()))
    });
    family("dictum_partition_leads", "Whether this node leads the partition.", &|it| {
        Some(u64::from(it.leader.as_ref() == Some(&status.node)))
    });
    family(
        "dictum_partition_ballot_round",
        "Round of the ballot under which the partition is led: grows with every change of its leader.",
        &|it| it.ballot.as_ref()?.split('.').next()?.parse().ok(),
    );
    family("dictum_partition_lag_entries", "Entries that this node knows to be decided and has not applied.", &|it| {
        it.decided.zip(it.applied).map(|(decided, applied)| decided.saturating_sub(applied))
    });
}

/// The fields of `INFO`.
fn fields_of(info: &str) -> BTreeMap<&str, &str> {
    info.lines().filter_map(|line| line.trim_end().split_once(':')).collect()
}

fn write_info(out: &mut Exposition, info: &str) {
    let fields = fields_of(info);
    for (field, name, kind, help) in INFO_METRICS {
        if let Some(number) = fields.get(field).and_then(|text| text.parse::<f64>().ok()) {
            out.family(name, kind, help);
            out.sample(&[], number);
        }
    }
    write_buckets(out, &fields);
    let Some(keyspace) = fields.contains_key("redis_version").then(|| fields.get("db0").copied().unwrap_or("")) else {
        return;
    };
    // A keyspace without keys has no line.
    let figure = |name: &str| {
        keyspace
            .split(',')
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    out.family("dictum_keys", "gauge", "Keys.");
    out.sample(&[], figure("keys"));
    out.family("dictum_keys_with_deadline", "gauge", "Keys that will expire.");
    out.sample(&[], figure("expires"));
}

fn write_buckets(out: &mut Exposition, fields: &BTreeMap<&str, &str>) {
    let buckets = fields.iter().filter_map(|(field, line)| Some((field.strip_prefix("bucket_")?, line)));
    let buckets: Vec<_> = buckets
        .map(|(bucket, line)| {
            let figures = line.split(',').filter_map(|part| part.split_once('='));
            (bucket, figures.collect::<BTreeMap<&str, &str>>())
        })
        .collect();
    for (field, name, kind, help) in BUCKET_METRICS {
        let figure = |figures: &BTreeMap<&str, &str>| figures.get(field).and_then(|text| text.parse::<f64>().ok());
        let samples: Vec<_> =
            buckets.iter().filter_map(|(bucket, figures)| Some((*bucket, figure(figures)?))).collect();
        if !samples.is_empty() {
            out.family(name, kind, help);
            samples.iter().for_each(|(bucket, value)| out.sample(&[("bucket", bucket)], *value));
        }
    }
}

fn write_journal(out: &mut Exposition, syncs: &SyncTimes) {
    let (within, count) = syncs.within();
    out.one("dictum_journal_syncs_total", "counter", "Syncs of the node's journal since the start.", count);
    const TIMES: &str = "dictum_journal_sync_duration_seconds";
    out.family(TIMES, "histogram", "Seconds that a sync of the node's journal took.");
    out.histogram(&[], BOUNDS.into_iter().zip(within), (syncs.seconds(), count));
}

fn write_http(out: &mut Exposition, counts: &HttpCounts) {
    let routes = counts.lock().clone();
    const REQUESTS: &str = "dictum_http_requests_total";
    out.family(REQUESTS, "counter", "HTTP requests by route and status.");
    let mut latencies: BTreeMap<(&str, &str), RouteCounts> = BTreeMap::new();
    for ((method, route, status), counts) in &routes {
        let status = status.to_string();
        out.sample(&[("method", method), ("route", route), ("status", &status)], counts.requests);
        let sum = latencies.entry((method, route)).or_default();
        sum.requests += counts.requests;
        sum.seconds += counts.seconds;
        for (bucket, more) in sum.buckets.iter_mut().zip(counts.buckets) {
            *bucket += more;
        }
    }
    const LATENCY: &str = "dictum_http_request_duration_seconds";
    out.family(LATENCY, "histogram", "Seconds from an HTTP request's head to the head of its answer.");
    for ((method, route), counts) in latencies {
        let within = LATENCY_BOUNDS.into_iter().zip(counts.buckets);
        out.histogram(&[("method", method), ("route", route)], within, (counts.seconds, counts.requests));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_becomes_metrics() {
        let mut out = Exposition::default();
        write_info(
            &mut out,
            "# Server\r\nredis_version:7.4.0\r\nuptime_in_seconds:12\r\n\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n",
        );
        assert_eq!(
            out.into_text().expect("it is written"),
            "# HELP dictum_uptime_seconds Seconds since the node started.\n\
             # TYPE dictum_uptime_seconds gauge\n\
             dictum_uptime_seconds 12\n\
             # HELP dictum_keys Keys.\n\
             # TYPE dictum_keys gauge\n\
             dictum_keys 3\n\
             # HELP dictum_keys_with_deadline Keys that will expire.\n\
             # TYPE dictum_keys_with_deadline gauge\n\
             dictum_keys_with_deadline 1\n\
             # EOF\n"
        );
    }

    #[test]
    fn what_buckets_have_in_memory_is_told_by_bucket() {
        let mut out = Exposition::default();
        write_info(
            &mut out,
            "bucket_a:id=1,kind=persistent,keys=3,bytes=99,quota=64,resident=1,resident_bytes=33,resident_ratio=0.3333,hits=4,misses=1,\
             hit_ratio=0.8000,evictions=2\r\nbucket_b:id=2,kind=cache,keys=5,evicted_keys=7\r\n",
        );
        let text = out.into_text().expect("it is written");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "dictum_bucket_keys{bucket=\"a\"} 3",
                "dictum_bucket_keys{bucket=\"b\"} 5",
                "dictum_bucket_bytes{bucket=\"a\"} 99",
                "dictum_bucket_quota_bytes{bucket=\"a\"} 64",
                "dictum_bucket_resident_values{bucket=\"a\"} 1",
                "dictum_bucket_resident_bytes{bucket=\"a\"} 33",
                "dictum_bucket_resident_ratio{bucket=\"a\"} 0.3333",
                "dictum_bucket_cache_hits_total{bucket=\"a\"} 4",
                "dictum_bucket_cache_misses_total{bucket=\"a\"} 1",
                "dictum_bucket_cache_hit_ratio{bucket=\"a\"} 0.8",
                "dictum_bucket_cache_evictions_total{bucket=\"a\"} 2",
                "dictum_bucket_evicted_keys_total{bucket=\"b\"} 7",
            ]
        );
    }

    #[test]
    fn requests_are_counted_by_route_and_sorted_into_buckets() {
        let counts = HttpCounts::default();
        counts.count(("GET", "/getValue".to_owned(), 200), Duration::from_micros(700));
        counts.count(("GET", "/getValue".to_owned(), 404), Duration::from_secs(7));
        let mut out = Exposition::default();
        write_http(&mut out, &counts);
        let text = out.into_text().expect("it is written");
        for line in [
            "dictum_http_requests_total{method=\"GET\",route=\"/getValue\",status=\"404\"} 1",
            "dictum_http_request_duration_seconds_bucket{le=\"0.0005\",method=\"GET\",route=\"/getValue\"} 0",
            "dictum_http_request_duration_seconds_bucket{le=\"0.001\",method=\"GET\",route=\"/getValue\"} 1",
            "dictum_http_request_duration_seconds_bucket{le=\"5.0\",method=\"GET\",route=\"/getValue\"} 1",
            "dictum_http_request_duration_seconds_bucket{le=\"+Inf\",method=\"GET\",route=\"/getValue\"} 2",
            "dictum_http_request_duration_seconds_count{method=\"GET\",route=\"/getValue\"} 2",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
    }
}
