// The entry point: creates the views and connects them; views do not know each other.

import { startAccess } from "./access.js";
import { startAppending, startPasting } from "./adding.js";
import { startAsking } from "./ask.js";
import { startDeletions } from "./deletions.js";
import { startDocument } from "./document.js";
import { startDocuments } from "./documents.js";
import { byId, say } from "./elements.js";
import { words } from "./figures.js";
import { Library } from "./library.js";
import { go, startRoutes } from "./routes.js";
import { showDocument } from "./server.js";
import { startUploads } from "./uploads.js";

const library = new Library();
const append = startAppending({ appended });
const deletions = startDeletions({ leaving, back, gone, failed });
const asking = startAsking({ library });
const documents = startDocuments({ library, append, remove: deletions.start });
const one = startDocument({ library, append, remove: deletions.start });
const pasting = startPasting({ added, appended, before: deletions.cancel });
startUploads({
  started: () => go("documents"),
  added: async (name) => {
    deletions.cancel(name);
    library.put(await showDocument(name));
  },
});
startRoutes({ shown });
startAccess({ given: again });
load();
// A page that the browser restores from its cache is out of date.
addEventListener("pageshow", (event) => event.persisted && again());
// As in many programs, "/" goes to the question.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, dialog")) return;
  event.preventDefault();
  if (byId("view-ask").hidden) go("ask", {});
  setTimeout(() => byId("question").focus());
});
byId("skip").addEventListener("click", () => setTimeout(() => byId("question").focus()));

function shown(view, values, before) {
  if (view === "ask") {
    asking.show(values);
    // On a phone it would open the keyboard over the page.
    if (before === null && !values.question && matchMedia("(hover: hover)").matches) byId("question").focus({ preventScroll: true });
  }
  if (view === "documents") {
    documents.show();
    if (values.paste) pasting.open(true);
  }
  if (view === "document") one.show(values, before);
}

async function load() {
  say(byId("library-problem"), null);
  try {
    await library.ready();
    await documents.show();
  } catch (problem) {
    for (const line of ["library-problem", "ask-problem"]) say(byId(line), problem);
  }
}

/** Load everything again, for example with another token. */
function again() {
  library.isLoaded = false;
  load();
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function added(document) {
  byId("library-said").textContent = `${document.name} was added: ${words(document.tokens)}.`;
  library.put(document);
  documents.focusNear(document.name);
}

function appended(document) {
  byId("library-said").textContent = `${document.name} has grown to ${words(document.tokens)}.`;
  library.put(document);
  if (!byId("view-document").hidden) go("document", { name: document.name });
}

function leaving(name) {
  library.hide(name, true);
  documents.focusNear(name);
}

function back(name) {
  library.hide(name, false);
  documents.focusNear(name);
}

function gone(name) {
  library.drop(name);
}

function failed(problem) {
  say(byId("library-problem"), problem);
}
