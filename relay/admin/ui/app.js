"use strict";
// The page shows what the admin port's JSON says, and asks for nothing else. Text goes in as text only.

const main = document.getElementById("main");
const live = document.getElementById("live");
const states = ["current", "behind", "waiting", "rejecting"];
let last = null; // the last status
let past = []; // [time, share of clients that are current] of the last ten minutes
let drawing = 0; // a page that is drawn late must not replace a newer one

// el makes an element: attributes, then children; text is a text node.
function el(name, attributes, ...children) {
  const svg = ["svg", "rect", "polyline", "title"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false).map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

async function ask(path, options) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  const answer = await fetch(path, { headers, cache: "no-store", ...options });
  if (answer.status === 401) document.getElementById("token").hidden = false;
  if (!answer.ok) {
    const text = await answer.text();
    let message = text;
    try { message = JSON.parse(text).error || text; } catch { /* plain text */ }
    throw new Error(message.trim() || answer.statusText);
  }
  return answer;
}

async function read(page, query) {
  const answer = await ask("../" + page + (query ? "?" + new URLSearchParams(query) : ""));
  return { value: await answer.json(), next: /<\?([^>]*)>; rel="next"/.exec(answer.headers.get("Link") || "") };
}

function ago(time) {
  if (!time) return "";
  const s = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (s < 120) return s + " s ago";
  if (s < 7200) return Math.round(s / 60) + " min ago";
  if (s < 172800) return Math.round(s / 3600) + " h ago";
  return Math.round(s / 86400) + " days ago";
}

const short = (url) => (url || "").replace(/^type\.googleapis\.com\//, "").replace(/^.*\.v\d+(alpha)?\./, "");
const clientLink = (node) => el("a", { href: "#/client/" + encodeURIComponent(node) }, node || "(no node id)");
const state = (s) => el("span", { class: "state " + s }, s);

function table(caption, heads, rows) {
  if (rows.length === 0) return el("p", { class: "muted" }, caption + ": none");
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))),
      el("tbody", {}, rows.map((r) => el("tr", {}, r.map((c) => el("td", {}, c === undefined ? "" : c)))))));
}

// bar is one bar, divided by the states of clients.
function bar(counts, total) {
  let at = 0;
  const parts = states.map((s) => {
    const width = total ? (100 * (counts[s] || 0)) / total : 0;
    const part = el("rect", { class: s, x: at, y: 0, width, height: 10 });
    at += width;
    return part;
  });
  const text = states.map((s) => (counts[s] || 0) + " " + s).join(", ");
  return el("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", height: 24, role: "img", "aria-label": text }, el("rect", { class: "frame", width: 100, height: 10 }), parts);
}

// plot is the share of clients that are current, over the last ten minutes.
function plot() {
  const end = Date.now();
  const shown = past.length ? [...past, [end, past[past.length - 1][1]]] : [];
  const points = shown.map(([at, share]) => `${(100 * (1 - (end - at) / 600000)).toFixed(2)},${(38 - 36 * share).toFixed(2)}`).join(" ");
  const now = past.length ? Math.floor(1000 * past[past.length - 1][1]) / 10 : 100;
  return el("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", height: 80, role: "img", "aria-label": `${now} % of the clients are current now; the last ten minutes` },
    el("rect", { class: "frame", width: 100, height: 40 }), el("polyline", { class: "plot", points }));
}

function problem(p) {
  return el("li", { class: "problem" },
    el("p", {}, el("strong", {}, p.kind), " · ", p.text),
    (p.nodes || []).length > 0 && el("p", { class: "muted" }, "Clients: ", p.nodes.flatMap((n, i) => [i ? ", " : "", clientLink(n)]), p.clients > p.nodes.length ? ` and ${p.clients - p.nodes.length} more` : ""),
    el("p", { class: "muted" }, p.since ? "Since " + ago(p.since).replace(" ago", "") + ". " : "", p.next && el("span", {}, "Next: ", el("code", {}, p.next))));
}

function overview() {
  if (!last) return [el("p", {}, "Waiting for the relay…")];
  const s = last;
  return [
    el("p", { class: "verdict " + (s.well ? "well" : "wrong"), id: "verdict" }, s.well ? "All is well" : s.problems.length === 1 ? "1 problem" : s.problems.length + " problems"),
    s.problems.length > 0 && el("ul", { class: "problems" }, s.problems.map(problem)),
    el("h2", {}, s.clients === 1 ? "1 client" : `${s.clients} clients`), bar(s.states, s.clients),
    el("ul", { class: "legend" }, states.map((name) => el("li", {}, el("a", { href: "#/clients?state=" + name }, state(name), " " + (s.states[name] || 0))))),
    el("h2", {}, "Convergence"), el("p", { class: "muted" }, "The share of clients that have all that there is for them, while this page is open."), plot(),
    table("Upstreams", ["Name", "State", "Since", "Scopes", "Time to answer, p50 and p99"], s.upstreams.map((u) => [
      u.name, u.state + (u.silent_since ? `, silent since ${ago(u.silent_since).replace(" ago", "")}` : ""), ago(u.since), u.scopes,
      u.answers && u.answers.count ? `${Math.round(1000 * u.answers.p50_seconds)} and ${Math.round(1000 * u.answers.p99_seconds)} ms` : "",
    ])),
    el("p", { class: "muted" }, `Configuration ${s.about.file || ""} ${s.about.hash}, in force since ${ago(s.about.in_force_since).replace(" ago", "")}.`),
  ];
}

// worst is the state of a client: the worst of its types.
function worst(c) {
  const all = Object.values(c.types || {}).map((t) => t.state);
  return ["rejecting", "waiting", "behind"].find((s) => all.includes(s)) || "current";
}

// pick takes parameters of the page's address for a query.
const pick = (query, ...keys) => Object.fromEntries(keys.filter((k) => query.get(k)).map((k) => [k, query.get(k)]));

// form has the page show what its fields say.
function form(page, ...fields) {
  const f = el("form", { onsubmit: (e) => { e.preventDefault(); location.hash = "#/" + page + "?" + new URLSearchParams([...new FormData(f)].filter(([, v]) => v)); } }, fields, el("button", {}, "Show"));
  return f;
}
const field = (name, label, value) => el("div", {}, el("label", { for: name }, label), el("input", { id: name, name, value: value || "" }));
const choice = (name, label, options, value) => el("div", {}, el("label", { for: name }, label), el("select", { id: name, name },
  options.map(([v, text]) => el("option", { value: v, selected: v === (value || "") }, text))));

const clientTable = (caption, list) => table(caption, ["Node", "State", "Waits for", "Form", "Address", "Since", "Scope"], list.map((c) => [
  clientLink(c.node), state(worst(c)), [...new Set(Object.values(c.types || {}).map((t) => t.waits_for).filter(Boolean))].join(", "),
  c.variant, c.peer, ago(c.since), c.scope,
]));
const resourceLink = (r) => el("a", { href: "#/resources?" + new URLSearchParams({ type: r.type_url, name: r.name }) }, r.name);
const resourceTable = (caption, list) => table(caption, ["Name", "Type", "State", "Version", "Age", "Clients", "Upstream", "Scope"], list.map((r) => [
  resourceLink(r), short(r.type_url), r.state, r.version, ago(r.updated), r.watchers, r.upstream, r.scope,
]));
const more = (next, page, text) => next && el("p", {}, el("a", { href: "#/" + page + "?" + next[1] }, text));

// search looks for a text in clients and in names of resources.
async function search(query) {
  const text = query.get("search") || "";
  if (!text) return [el("h2", {}, "Search"), el("p", { class: "muted" }, "Enter a part of a node id, an address, an identity, or a resource's name.")];
  const [c, r] = await Promise.all([read("clients", { search: text, limit: 20 }), read("resources", { search: text, limit: 50 })]);
  return [el("h2", {}, "Search: " + text), clientTable("Clients found", c.value), more(c.next, "clients", "The next clients"),
    resourceTable("Resources found", r.value), more(r.next, "resources", "The next resources")];
}

async function clients(query) {
  const params = { limit: 100, ...pick(query, "node", "state", "type", "search", "after") };
  const { value, next } = await read("clients", params);
  const gone = (await read("clients", { gone: true })).value;
  return [
    el("h2", {}, "Clients"), form("clients", field("node", "Node id", query.get("node")), field("search", "Part of node, address or identity", query.get("search")),
      choice("state", "State", ["", "stale", ...states].map((v) => [v, v || "any"]), query.get("state"))),
    clientTable("Streams and polls", value), more(next, "clients", "The next clients"),
    table("Gone within the last hour", ["Node", "Why", "When", "Address"], gone.slice(0, 100).map((g) => [g.node, g.why, ago(g.at), g.peer])),
  ];
}

async function client(node) {
  const all = (await read("clients", { node, names: true })).value;
  if (all.length === 0) return [el("h2", {}, node), el("p", {}, "No client with this node id is connected.")];
  return [el("h2", {}, node), all.map((c) => [
    el("p", { class: "muted" }, `${c.variant} from ${c.peer}, ${c.spiffe_id || c.token_subject || "no identity"}, since ${ago(c.since).replace(" ago", "")}, scope ${c.scope}`),
    Object.entries(c.types || {}).map(([url, t]) => [
      el("h3", {}, short(url)),
      el("p", {}, state(t.state), t.waits_for && ` · waits for ${t.waits_for}`, t.behind_since && ` · behind since ${ago(t.behind_since).replace(" ago", "")}`,
        ` · acknowledged version ${t.held_version || "none"}`, (t.from || []).map((o) => ` · from ${o.upstream}, scope ${o.scope}${o.rule ? ", rule " + o.rule : ""}`)),
      t.last_nack && t.state === "rejecting" && el("p", { class: "problem" }, "Rejects: ", t.last_nack.message),
      (t.unanswered || []).length > 0 && el("p", {}, "The control plane has not answered: ", t.unanswered.join(", ")),
      table(short(url) + " of this client", ["Name", "Status", "Acknowledged", "Sent", "In the cache", "Asked for by"], (t.names || []).slice(0, 1000).map((n) => [n.name, n.status, n.held, n.sent, n.cached, n.by])),
    ]),
  ])].flat(4);
}

async function rejections() {
  const { value } = await read("rejections");
  const list = Array.isArray(value) ? value : value.rejections || [];
  return [el("h2", {}, "Rejections"), el("p", { class: "muted" }, "What clients reject now. Solved ones leave this list."),
    table("Rejected now", ["Type", "Resource", "Version", "Reason", "Clients", "Since"], list.map((r) => [
      short(r.type_url), r.resource ? r.resource + (r.alone ? "" : " (one of several candidates)") : "not known", r.version, r.reason,
      [r.clients + ": ", (r.nodes || []).flatMap((n, i) => [i ? ", " : "", clientLink(n)])].flat(), ago(r.since),
    ]))];
}

async function resources(query) {
  const upstreams = (await read("upstreams")).value;
  const counts = new Map();
  for (const u of upstreams) for (const s of u.sessions) for (const t of s.tables || []) counts.set(t.type_url, (counts.get(t.type_url) || 0) + (t.resources || 0));
  const name = query.get("name");
  const page = [el("h2", {}, "Resources"), form("resources",
    choice("type", "Type", [["", "any"], ...[...counts.keys()].sort().map((t) => [t, `${short(t)} (${counts.get(t)})`])], query.get("type")),
    field("name", "Name", name), field("search", "Part of the name", query.get("search")),
    choice("state", "State", ["", "present", "absent", "failed", "unknown"].map((v) => [v, v || "any"]), query.get("state")))];
  const { value, next } = await read("resources", { limit: 100, ...pick(query, "type", "name", "search", "state", "upstream", "scope", "after") });
  page.push(resourceTable("Cached resources", value), more(next, "resources", "The next resources"));
  for (const r of value.filter((r) => name && r.payload)) page.push(el("h3", {}, `${r.name} in scope ${r.scope || "all"}`), el("pre", { class: "scroll", tabindex: "0" }, JSON.stringify(r.payload, null, 2)));
  if (name) page.push(el("p", {}, el("a", { href: "#/changes?" + new URLSearchParams({ since: "24h", name, ...pick(query, "type") }) }, "What changed of it")));
  return page;
}

// difference lists the lines of two texts: [sign, line], where the sign is " ", "-" or "+".
function difference(before, after) {
  const a = before ? before.split("\n") : [], b = after ? after.split("\n") : [];
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), lines = [];
  if (x.length * y.length > 1e6) lines.push(...x.map((l) => ["-", l]), ...y.map((l) => ["+", l])); // too much to compare
  else {
    const common = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1)); // of what is left
    for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    for (let i = 0, j = 0; i < x.length || j < y.length;) {
      if (i < x.length && j < y.length && x[i] === y[j]) { lines.push([" ", x[i++]]); j++; }
      else if (j === y.length || (i < x.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", x[i++]]);
      else lines.push(["+", y[j++]]);
    }
  }
  const same = (l) => [" ", l];
  return [...a.slice(Math.max(0, head - 3), head).map(same), ...lines, ...a.slice(a.length - tail, a.length - tail + 3).map(same)]; // with three lines around
}

// changed shows one change with its difference.
function changed(c) {
  const text = (v) => (v === undefined ? "" : JSON.stringify(v, null, 2));
  const lines = difference(text(c.before), text(c.after));
  return [el("h3", {}, `${c.name} at ${clock(c.at)}`), el("p", { class: "muted" }, `${short(c.type_url)} of ${c.upstream}, scope ${c.scope || "all"}: version ${c.old_version || "none"} → ${c.new_version || "none"}`),
    lines.length === 0 ? el("p", { class: "muted" }, "The contents are not shown, or are equal.") : el("pre", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Difference of " + c.name },
      lines.map(([sign, line]) => el({ "-": "del", "+": "ins", " ": "span" }[sign], {}, `${sign} ${line}\n`)))];
}

const clock = (time) => new Date(time).toISOString().slice(5, 19).replace("T", " ");

async function changes(query) {
  const since = query.get("since") || "10m", one = query.get("name");
  const { value } = await read("changes", { since, ...pick(query, "type", "name"), ...(one ? { diff: true } : {}) });
  const link = (c) => el("a", { href: "#/changes?" + new URLSearchParams({ since, type: c.type_url, name: c.name }) }, c.name);
  const rows = [
    ...value.changes.map((c) => [c.at, [clock(c.at), short(c.type_url), link(c), c.old_version, c.new_version || "gone", ...(c.clients ? [c.clients.asking, c.clients.sent, c.clients.accepted, c.clients.rejected] : ["", "", "", ""]), c.scope]]),
    ...(one ? [] : value.events.map((e) => [e.at, [clock(e.at), e.kind, e.text, "", "", "", "", "", "", e.operator || ""]])),
  ].sort((a, b) => Date.parse(b[0]) - Date.parse(a[0])).map(([, row]) => row);
  return [el("h2", {}, "Changes"), form("changes",
    choice("since", "Within", [["10m", "ten minutes"], ["1h", "an hour"], ["24h", "a day"]], since), field("type", "Type", query.get("type")), field("name", "Name", one)),
    value.from && el("p", { class: "muted" }, `The relay remembers all changes since ${value.from} only.`),
    table("What changed, and what operators did", ["Time (UTC)", "Type", "Name", "Old", "New", "Clients", "Sent", "Accepted", "Rejected", "Scope"], rows),
    one ? value.changes.map(changed) : el("p", { class: "muted" }, "A name leads to its differences.")].flat(3);
}

async function upstreams() {
  const { value } = await read("upstreams");
  return [el("h2", {}, "Upstreams"), value.map((u) => [
    el("h3", {}, u.name), el("p", {}, `${u.state || (u.path ? "files" : "")}`, u.cause && ` · ${u.cause}`, u.last_answer && ` · last answer ${ago(u.last_answer)}`,
      (u.open_since || u.unanswered_since) && ` · oldest request without an answer ${ago(u.open_since || u.unanswered_since)}`),
    table(`Servers of ${u.name}`, ["Endpoint", "Priority", "Scopes", "Last answer", "Unreachable since"], (u.replicas || []).map((r) => [r.endpoint, r.priority, r.sessions, ago(r.last_answer), ago(r.unreachable_since)])),
    table(`Scopes of ${u.name}`, ["Scope", "State", "Clients", "Streams", "Last response", "Last error", "Types not answered"], u.sessions.slice(0, 1000).map((s) => [
      s.scope, s.state, s.clients, s.streams, ago(s.last_response), s.last_error, (s.unanswered || []).concat(s.unavailable || []).map(short).join(", ")])),
  ])].flat(3);
}

// draw shows the page that the address names. Those that change by themselves are drawn again with each status.
async function draw(again) {
  const turn = ++drawing;
  const [path, query] = (location.hash.slice(1) || "/").split("?");
  const params = new URLSearchParams(query || "");
  const focused = document.activeElement;
  if (again && (path === "/search" || (path === "/resources" && !params.get("name")))) return; // the cache may hold a million names
  if (again && (path !== "/" && (main.contains(focused) && focused.matches("a, input, select, pre") || getSelection().toString()))) return; // somebody is at work there
  let content;
  try {
    if (path === "/clients") content = await clients(params);
    else if (path.startsWith("/client/")) content = await client(decodeURIComponent(path.slice("/client/".length)));
    else if (path === "/rejections") content = await rejections();
    else if (path === "/resources") content = await resources(params);
    else if (path === "/upstreams") content = await upstreams();
    else if (path === "/changes") content = await changes(params);
    else if (path === "/search") content = await search(params);
    else content = overview();
  } catch (e) {
    content = [el("p", { class: "problem", role: "alert" }, e.message)];
  }
  if (turn !== drawing) return;
  main.replaceChildren(...content.flat(4).filter((c) => c instanceof Node));
  for (const a of document.querySelectorAll("nav a")) {
    if (a.getAttribute("href") === "#" + path || (path.startsWith("/client/") && a.getAttribute("href") === "#/clients")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (!again) main.focus({ preventScroll: true });
}

function take(status) {
  last = status;
  const now = Date.now();
  past.push([now, status.clients ? (status.states.current || 0) / status.clients : 1]);
  past = past.filter(([at]) => now - at < 600000);
  document.getElementById("version").textContent = status.about.version;
  document.title = (status.well ? "" : "(" + status.problems.length + ") ") + "xdsrelay";
  draw(true);
}

// follow reads the events of the relay. They come over fetch, which can send a token.
async function follow() {
  for (;;) {
    try {
      const reader = (await ask("../events")).body.pipeThrough(new TextDecoderStream()).getReader();
      document.getElementById("token").hidden = true;
      live.textContent = "Live";
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const event = text.slice(0, end);
          if (event.startsWith("data: ")) take(JSON.parse(event.slice("data: ".length)));
        }
      }
    } catch (e) {
      live.textContent = "Not live: " + e.message;
    }
    await new Promise((wake) => setTimeout(wake, 2000));
    if (live.textContent === "Live") live.textContent = "Not live: the relay ended the connection";
  }
}

document.getElementById("token").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem("token", document.getElementById("secret").value);
  document.getElementById("secret").value = "";
  draw(false);
});
document.getElementById("find").addEventListener("submit", (e) => {
  e.preventDefault();
  location.hash = "#/search?" + new URLSearchParams({ search: document.getElementById("wanted").value });
});
addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.altKey || e.metaKey || e.target.matches("input, select, textarea")) return;
  e.preventDefault();
  document.getElementById("wanted").focus();
});
addEventListener("hashchange", () => draw(false));
draw(true);
follow();
