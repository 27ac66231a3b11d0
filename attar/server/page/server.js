// The HTTP API as functions; errors are one line in plain words.

const TOKEN = "attar.token";
// Answers to a question.
const TOP = 8;
// Documents that one request changes, at most.
const MOST = 500;
// Milliseconds between the first and the last looks at a job.
const FIRST_LOOK = 100;
const LAST_LOOK = 1_000;

/** An error of a request: a message, and the status if there was a reply. */
export class Problem extends Error {
  constructor(line, status = 0) {
    super(line);
    this.status = status;
  }
}

/** The bearer token of this tab, or "". */
export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

/** Keep a token as long as the tab is open; "" forgets it. */
export function keepToken(given) {
  if (given) sessionStorage.setItem(TOKEN, given);
  else sessionStorage.removeItem(TOKEN);
}

/** Documents in the order of their names; with `contains`, those whose name or title contains it. */
export function listDocuments(after, limit, contains = "") {
  const asked = new URLSearchParams({ limit });
  if (after !== null) asked.set("after", after);
  if (contains) asked.set("contains", contains);
  return call("GET", `v1/documents?${asked}`);
}

/** One document with its text. */
export async function showDocument(name) {
  return call("GET", pathOf(name));
}

/** Add a document; another text of that name is refused with 409 unless this one may `replace` it. */
export async function putDocument(name, text, replace, tags = []) {
  const labels = tags.length ? { tags } : {};
  return finished(await call("PUT", pathOf(name), { text, replace, ...labels }));
}

export async function appendTo(name, text) {
  return finished(await call("POST", `${pathOf(name)}/append`, { text }));
}

/** A reply; one that is a job, because the text is long, when that has ended. `told(job)` is called as it goes. */
async function finished(reply, told = () => {}) {
  let job = reply;
  for (let pause = FIRST_LOOK; isUnfinished(job); pause = Math.min(pause * 1.3, LAST_LOOK)) {
    told(job);
    await new Promise((resolve) => setTimeout(resolve, pause));
    job = await call("GET", `v1/jobs/${job.id}`);
  }
  if (job.problem) throw problemOf(job.problem.status, job.problem, null);
  if (job.state === "cancelled") throw new Problem("Cancelled.");
  return job;
}

const isUnfinished = ({ state }) => state === "waiting" || state === "running";

/** Stop a job. */
export function cancelJob(id) {
  return call("DELETE", `v1/jobs/${id}`);
}

/** Remove documents. */
export async function removeDocuments(names) {
  for (const documents of partsOf(names)) await call("POST", "v1/remove", { documents });
}

/** Give documents tags, and take others away. */
export async function tagDocuments(names, add, remove) {
  for (const documents of partsOf(names)) await call("POST", "v1/tag", { documents, add, remove });
}

/** Lists as short as a server takes. */
function partsOf(names) {
  return Array.from({ length: Math.ceil(names.length / MOST) }, (_, at) => names.slice(at * MOST, (at + 1) * MOST));
}

/** The answers to many questions to all documents. */
export async function askMany(questions) {
  return (await call("POST", "v1/ask", { questions, top: 1 })).results;
}

/** Answers from one document, from a subset, or from all if both are null. */
export function ask(question, { document, within }) {
  const given = Object.entries({ document, within }).filter(([, value]) => value !== null);
  return call("POST", "v1/ask", { question, top: TOP, ...Object.fromEntries(given) });
}

/** The documents that a search finds, all or of a subset, each with its best sentences. */
export async function search(query, within) {
  return (await call("POST", "v1/search", within ? { query, within } : { query })).hits;
}

/** Sizes of the library, and what the server is doing. */
export function status() {
  return call("GET", "v1/status");
}

/** Send a file, which becomes a job: `sent(share)` is called as it goes, `told(job)` while the server reads it. */
export async function sendFile(file, { name, tags, replace }, sent, told) {
  const query = new URLSearchParams({ name, replace: replace ? 1 : 0 });
  for (const tag of tags) query.append("tag", tag);
  return (await finished(await call("POST", `v1/files?${query}`, file, sent), told)).changes ?? [];
}

/** The path of a document. */
function pathOf(name) {
  // Browsers resolve these two as folders, even if encoded.
  if (name === "." || name === "..") {
    throw new Problem(`“${name}” cannot be part of a URL. Use the attar command for it.`);
  }
  return `v1/documents/${encodeURIComponent(name)}`;
}

/** Send a request, with JSON or a file; not by `fetch`, which tells nothing about how much of a file is sent. */
function call(method, path, body, sent = null) {
  const request = new XMLHttpRequest();
  request.open(method, new URL(path, document.baseURI));
  if (token()) request.setRequestHeader("Authorization", `Bearer ${token()}`);
  if (body !== undefined) request.setRequestHeader("Content-Type", `application/${sent ? "octet-stream" : "json"}`);
  if (sent) {
    request.setRequestHeader("Prefer", "respond-async");
    request.upload.addEventListener("progress", ({ loaded, total }) => sent(total ? loaded / total : 1));
  }
  return new Promise((resolve, reject) => {
    request.addEventListener("error", () => reject(new Problem("The server does not answer. Is attar serve still running?")));
    request.addEventListener("load", () => {
      const { status, responseText } = request;
      const reply = parsed(request.getResponseHeader("Content-Type"), responseText);
      if (status >= 200 && status < 300) resolve(reply);
      else reject(problemOf(status, reply, request.getResponseHeader("Retry-After")));
    });
    request.send(sent ? body : JSON.stringify(body));
  });
}

function parsed(kind, text) {
  if (!kind?.includes("json")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// What a person reads instead of a status.
const PLAIN = {
  401: "The server requires a token.",
  403: "You may ask here, but not change the library.",
  404: "This document is no longer in the library.",
  409: "A document of this name is already in the library.",
  500: "Something went wrong on the server. Its log has the reason.",
  504: "The server took too long, and gave up. Try again.",
};

/** A refused request in plain words: those for its status, or what the problem object (RFC 9457) says. */
function problemOf(status, reply, wait) {
  if (status === 401) document.dispatchEvent(new Event("tokenrequired"));
  const detail = reply?.detail ?? "";
  const limit = /at most ([\d,]+ \w+)/.exec(detail)?.[1];
  if (status === 503 && wait) return new Problem(`The server is busy. Try again in ${wait} s.`, status);
  if (status === 413) return new Problem(`Too large: the server takes at most ${limit ?? "less"}.`, status);
  const said = detail ? detail.split("; ").map(sentence).join(" ") : `The server answered with status ${status}.`;
  return new Problem(PLAIN[status] ?? said, status);
}

/** With a capital, unless it begins with a name such as "a.pdf", and a full stop. */
function sentence(words) {
  const capital = words.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase());
  return /[.!?]$/.test(words) ? capital : `${capital}.`;
}
