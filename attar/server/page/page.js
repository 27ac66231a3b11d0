// The entry point: creates the views and connects them; views do not know each other.

import { startAccess } from "./access.js";
import { startAppending, startPasting } from "./adding.js";
import { startAsking } from "./ask.js";
import { startDeletions } from "./deletions.js";
import { startDocument } from "./document.js";
import { startDocuments } from "./documents.js";
import { byId, say } from "./elements.js";
import { counted } from "./figures.js";
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
byId("skip").addEventListener("click", () => setTimeout(() => byId("question").focus()));

function shown(view, values, before) {
  if (view === "ask") asking.show(values);
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
  byId("library-said").textContent = `${document.name} was added: ${counted(document.tokens, "token")}.`;
  library.put(document);
  documents.focusNear(document.name);
}

function appended(document) {
  byId("library-said").textContent = `${document.name} has grown to ${counted(document.tokens, "token")}.`;
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
