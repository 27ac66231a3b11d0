// The routes of `attar serve`, each a function, and what goes wrong on them as one line.

const TOKEN = "attar.token";

/** What the server refused, or that it did not answer: a line for people, and the status if there was one. */
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

export function listDocuments(after = null, limit = 50) {
  const asked = new URLSearchParams({ limit });
  if (after !== null) asked.set("after", after);
  return call("GET", `v1/documents?${asked}`);
}

/** All that is told of a document, with the numbers of its memory where the server shows them. */
export async function showDocument(name) {
  return call("GET", `${pathOf(name)}?memory=1`);
}

/** Add a document; another text of that name is refused with 409 unless this one may `replace` it. */
export async function putDocument(name, text, replace) {
  return call("PUT", pathOf(name), { text, replace });
}

export async function appendTo(name, text) {
  return call("POST", `${pathOf(name)}/append`, { text });
}

/** Take a document out; `leaving` lets the request outlive the page. */
export async function removeDocument(name, leaving = false) {
  return call("DELETE", pathOf(name), undefined, { keepalive: leaving });
}

export function ask(document, question, top = 8) {
  return call("POST", "v1/ask", { document, question, top });
}

/** `about` is { document } where its text is kept, or { text }. */
export function explain(about, question) {
  return call("POST", "v1/explain", { ...about, question });
}

export function measureSoftmax(document) {
  return call("POST", "v1/compare", { document });
}

/** Prometheus's text; asked for unbidden, so that a refusal opens no dialog. */
export function metrics() {
  return call("GET", "metrics", undefined, {}, false);
}

/** A name as a part of an address. */
function pathOf(name) {
  // Every browser takes these two for steps between folders, however they are written.
  if (name === "." || name === "..") {
    throw new Problem(`“${name}” cannot be a part of an address; use the attar command for it.`);
  }
  return `v1/documents/${encodeURIComponent(name)}`;
}

async function call(method, path, body, options = {}, isWanted = true) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      ...options,
    });
  } catch {
    throw new Problem("The server does not answer; is attar serve still running?");
  }
  const kind = response.headers.get("Content-Type") ?? "";
  const told = kind.includes("json") ? await response.json().catch(() => null) : await response.text();
  if (response.status === 401 && isWanted) document.dispatchEvent(new Event("tokenwanted"));
  if (!response.ok) throw problemOf(response, told);
  return told;
}

/** One line of a problem object (RFC 9457), or of an answer that is none. */
function problemOf(response, told) {
  const { status } = response;
  if (status === 401) return new Problem("The server wants its token.", status);
  const wait = response.headers.get("Retry-After");
  if (status === 503 && wait) return new Problem(`The server is busy; try again in ${wait} s.`, status);
  const line = told?.detail || told?.title || `The server answered ${status} ${response.statusText}`.trim();
  return new Problem(line, status);
}
