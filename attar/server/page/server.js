// The HTTP API as functions; errors are one line.

const TOKEN = "attar.token";

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

export function listDocuments(after = null, limit = 50) {
  const asked = new URLSearchParams({ limit });
  if (after !== null) asked.set("after", after);
  return call("GET", `v1/documents?${asked}`);
}

/** One document, with the numbers of its memory. */
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

/** Remove a document; `leaving` lets the request outlive the page. */
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

/** Prometheus's text; a 401 does not open the dialog, as nobody clicked. */
export function metrics() {
  return call("GET", "metrics", undefined, {}, false);
}

/** The path of a document. */
function pathOf(name) {
  // Browsers resolve these two as folders, even if encoded.
  if (name === "." || name === "..") {
    throw new Problem(`“${name}” cannot be part of a URL. Use the attar command for it.`);
  }
  return `v1/documents/${encodeURIComponent(name)}`;
}

async function call(method, path, body, options = {}, asksForToken = true) {
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
    throw new Problem("The server does not answer. Is attar serve still running?");
  }
  const kind = response.headers.get("Content-Type") ?? "";
  const reply = kind.includes("json") ? await response.json().catch(() => null) : await response.text();
  if (response.status === 401 && asksForToken) document.dispatchEvent(new Event("tokenrequired"));
  if (!response.ok) throw problemOf(response, reply);
  return reply;
}

/** The message of a problem object (RFC 9457), or of any other error reply. */
function problemOf(response, reply) {
  const { status } = response;
  if (status === 401) return new Problem("The server requires a token.", status);
  const wait = response.headers.get("Retry-After");
  if (status === 503 && wait) return new Problem(`The server is busy. Try again in ${wait} s.`, status);
  const line = reply?.detail || reply?.title || `The server answered ${status} ${response.statusText}`.trim();
  return new Problem(line, status);
}
