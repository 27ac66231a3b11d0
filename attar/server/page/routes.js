// The views and their addresses: #ask?question=…&document=…, #documents, #document?name=….

import { byId } from "./elements.js";

const VIEWS = { ask: "Ask", documents: "Documents", document: "Document" };

/** The address of a view; values that are empty are left out. */
export function address(view, values = {}) {
  const given = Object.entries(values).filter(([, value]) => ![null, undefined, ""].includes(value));
  return given.length ? `#${view}?${new URLSearchParams(given)}` : `#${view}`;
}

/** Go to a view; also if it is the current one. */
export function go(view, values) {
  const to = address(view, values);
  if (to === location.hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = to;
}

/** Show the view of each address; then `shown(view, values, before)` is called, with the view before it. */
export function startRoutes({ shown }) {
  // Where each view was scrolled to: who comes back from a document to the answers finds them where they were.
  const positions = new Map();
  let current = null;

  function show() {
    const [written, query = ""] = split(location.hash.slice(1));
    const view = written in VIEWS ? written : "ask";
    const before = current;
    if (before !== null) positions.set(before, scrollY);
    for (const each of Object.keys(VIEWS)) byId(`view-${each}`).hidden = each !== view;
    // A document is one of the documents.
    byId("to-ask").ariaCurrent = view === "ask" ? "page" : null;
    byId("to-documents").ariaCurrent = view === "ask" ? null : "page";
    document.title = `${VIEWS[view]} · Attar`;
    if (view !== before) scrollTo(0, view === "document" ? 0 : (positions.get(view) ?? 0));
    current = view;
    shown(view, Object.fromEntries(new URLSearchParams(query)), before);
  }

  history.scrollRestoration = "manual";
  addEventListener("hashchange", show);
  show();
}

/** An address's view and its values: a name may have a question mark, but an encoded one. */
function split(written) {
  const at = written.indexOf("?");
  return at < 0 ? [written] : [written.slice(0, at), written.slice(at + 1)];
}
