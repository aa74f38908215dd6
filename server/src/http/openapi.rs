//! `/openapi.json`: what every route takes and answers.
//!
//! The routes describe what is their own; what any of them may answer is added here, so that it cannot be forgotten.

use super::{conditions, levels, place, request};
use crate::bucket::{CONSISTENCIES, DURABILITIES};
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, LicenseBuilder, Object, ObjectBuilder, OpenApi, OpenApiBuilder, Ref,
    RefOr, Required, Response, ResponseBuilder, Schema, Type,
};

/// Where the keys of the default bucket, or of the user's, are.
const KEY: &str = "/v1/keys/{key}";

/// Where the keys of a bucket are: the same handlers.
pub(super) const BUCKET_KEY: &str = "/v1/buckets/{name}/keys/{key}";

/// What any route may answer beside its own.
const COMMON: &[(&str, &str)] = &[
    ("400", "The request is malformed: a parameter, a header or the body."),
    (
        "403",
        "NOPERM: the user may not run a command that the route runs, or not with this key or bucket. DENIED: protected mode, and the client is on another machine. ORIGIN: a web page asks that is not let in (--http-origin). Nothing was done.",
    ),
    ("404", "There is no such route."),
    ("405", "The route does not take this method; the header Allow names those that it takes."),
    ("415", "FORM: a web page has sent a body of a type that a form can send to any server. Nothing was done."),
    ("421", "MISDIRECTED: Host is no name of this node (--http-host). Nothing was done."),
    ("413", "The body, or the key, is larger than the server takes."),
    ("500", "The server is at fault."),
    ("503", "CLUSTERDOWN: no leader can be reached, or BUSY: too much is under way. Nothing was done; try again."),
    (
        "504",
        "UNKNOWN: a write may or may not have been done; repeat it with an Idempotency-Key, or read the key. NOTALL: it was done, and a \
         majority has it, but not every replica had it in time.",
    ),
];

/// The routes that give commands about a bucket's keys, without those of [`BUCKET_KEY`], which are [`KEY`]'s.
const ABOUT_KEYS: &[&str] = &["/getValue", "/getDictionary", "/insertOrUpdate", KEY];

/// The answers that tell what was seen.
const WITH_TOKEN: &[&str] = &["200", "204", "304", "404", "409", "412"];

/// The description's head: what does not belong to any route.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Dictum")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Dictum over HTTP. A success of a write means: decided by a majority of the nodes and on their disks, or in \
             their memory, if the bucket is ephemeral. A read is linearizable. The headers Dictum-Durability and \
             Dictum-Consistency, or else the bucket's settings, may ask for something else. Routes without a bucket \
             in their path are for the default bucket, or for the one that is said with the name of the user in Basic \
             authentication: USER@BUCKET, or BUCKET for the user default. A route may do what its user may by the \
             commands that it runs. Everything that is no success answers `{\"code\": …, \"message\": …}`.",
        ))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let tag = |name: &str, text: &str| TagBuilder::new().name(name).description(Some(text)).build();
    OpenApiBuilder::new()
        .info(info)
        .tags(Some([
            tag("dictionary", "The replicated dictionary: JSON in, JSON out."),
            tag("keys", "Values as raw bytes, with revisions as entity tags."),
            tag("buckets", "Key spaces of their own, each with its kind, quota and defaults."),
            tag("nodes", "What each node is for: who leads, who votes."),
            tag("operation", "Health, figures and the state of the cluster."),
        ]))
        .build()
}

/// Adds to each operation what any of them may answer; and how to show the password, where one is needed.
pub(super) fn complete(mut api: OpenApi, open_paths: &[&str], password: bool) -> OpenApi {
    let components = api.components.get_or_insert_with(Components::new);
    if password {
        components.add_security_scheme("basic", SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)));
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
    describe_levels(&mut api);
    describe_keys_of_buckets(&mut api);
    for (path, item) in &mut api.paths.paths {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            for parameter in operation.parameters.iter_mut().flatten() {
                let RefOr::T(parameter) = parameter else { continue };
                let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { continue };
                never_null(schema);
                match parameter.name.as_str() {
                    "If-Match" | "If-None-Match" => {
                        schema.pattern = Some(conditions::PATTERN.to_owned());
                    }
                    "name" => {
                        schema.pattern = Some(place::NAME_PATTERN.to_owned());
                        schema.examples = vec![serde_json::json!("users")];
                    }
                    "Idempotency-Key" => {
                        schema.pattern = Some(request::IDEMPOTENCY_KEY_PATTERN.to_owned());
                    }
                    _ => {}
                }
            }
            for (status, text) in COMMON {
                add(operation, status, text);
            }
            if password && !open_paths.contains(&path.as_str()) {
                add(operation, "401", "The password is missing or wrong.");
                add(operation, "429", "Too many wrong passwords have come from this machine.");
                let requirement = |name: &str| SecurityRequirement::new(name, [] as [&str; 0]);
                operation.security = Some(vec![requirement("basic"), requirement("bearer")]);
            }
        }
    }
    api
}

/// The headers about durability and consistency.
fn describe_levels(api: &mut OpenApi) {
    for path in ABOUT_KEYS {
        let Some(item) = api.paths.paths.get_mut(*path) else { continue };
        if let Some(read) = &mut item.get {
            let text = "How new the state must be that is read: no older than any write that was answered before; than the token's; or \
                        whatever this node has. Left out: as the bucket says, or session, if there is a token.";
            take_header(read, "Dictum-Consistency", text, one_of(&CONSISTENCIES));
            let text = "The Dictum-Token of an earlier answer: what is read is no older than what that one has seen.";
            let token = ObjectBuilder::new().schema_type(Type::String).pattern(Some(levels::TOKEN_PATTERN));
            take_header(read, "Dictum-Token", text, token.build());
            let text = "How many milliseconds old the state that was read was at most. Not of a linearizable read, nor where this is not known.";
            tell_header(read, "Dictum-Age-Ms", text, Type::Integer);
        }
        for operation in [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten() {
            let text = "Stands for what the request has seen or written, or for something newer: for Dictum-Token of a later request, at any node.";
            tell_header(operation, "Dictum-Token", text, Type::String);
        }
        for write in [&mut item.put, &mut item.post, &mut item.delete].into_iter().flatten() {
            let text = "What must be true before the write is answered: a majority of the replicas has it; has it on disk; every replica has \
                        it. Left out: as the bucket says.";
            take_header(write, "Dictum-Durability", text, one_of(&DURABILITIES));
        }
    }
}

fn one_of(words: &[&str]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied())).build()
}

/// Adds a header that a request may have.
fn take_header(operation: &mut Operation, name: &str, text: &str, schema: Object) {
    let header = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(text))
        .schema(Some(schema))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(header));
}

/// Adds a header that an answer may have.
fn tell_header(operation: &mut Operation, name: &str, text: &str, kind: Type) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && WITH_TOKEN.contains(&status.as_str())
        {
            let mut header = Header::new(ObjectBuilder::new().schema_type(kind.clone()).build());
            header.description = Some(text.to_owned());
            response.headers.insert(name.to_owned(), header.into());
        }
    }
}

/// `/v1/buckets/{name}/keys/{key}` takes and answers what `/v1/keys/{key}` does.
fn describe_keys_of_buckets(api: &mut OpenApi) {
    let Some(mut item) = api.paths.paths.get(KEY).cloned() else { return };
    for operation in [&mut item.get, &mut item.put, &mut item.delete].into_iter().flatten() {
        operation.operation_id = operation.operation_id.take().map(|id| format!("{id}_of_bucket"));
        operation.tags = Some(vec!["keys".to_owned(), "buckets".to_owned()]);
        let name = ParameterBuilder::new()
            .name("name")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The bucket's name."))
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .build();
        operation.parameters.get_or_insert_default().insert(0, RefOr::T(name));
        if let Some(RefOr::T(none)) = operation.responses.responses.get_mut("404") {
            none.description = "There is no such key, or no such bucket.".to_owned();
        }
    }
    api.paths.paths.insert(BUCKET_KEY.to_owned(), item);
}

/// A parameter that may be left out is not one that may be null, of which text knows nothing.
fn never_null(schema: &mut Object) {
    if let SchemaType::Array(types) = &mut schema.schema_type {
        types.retain(|of| *of != Type::Null);
        if let [only] = &types[..] {
            schema.schema_type = SchemaType::Type(only.clone());
        }
    }
}

fn add(operation: &mut Operation, status: &str, text: &str) {
    let responses = &mut operation.responses.responses;
    let response = responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(text)));
    if let RefOr::T(response) = response
        && status == "503"
    {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
        let mut header = Header::new(seconds);
        header.description = Some("Seconds after which to try again.".to_owned());
        response.headers.insert("Retry-After".to_owned(), header.into());
    }
}

fn problem(text: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(text).content("application/json", content).build()
}
