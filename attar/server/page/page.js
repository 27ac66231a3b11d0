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
import { startLook } from "./look.js";
import { go, startRoutes } from "./routes.js";
import { showDocument, status } from "./server.js";
import { startUploads } from "./uploads.js";

const library = new Library();
const append = startAppending({ appended });
const deletions = startDeletions({ leaving, back, gone, failed });
const look = startLook();
const asking = startAsking({ library, look: look.value });
const documents = startDocuments({ library, append, remove: deletions.start });
const one = startDocument({ library, append, remove: deletions.start });
const pasting = startPasting({ added, appended, before: deletions.keep });
startUploads({
  started: () => go("documents"),
  added: async (name) => {
    deletions.keep(name);
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
  const focus = () => byId("question").focus();
  if (location.hash.startsWith("#document")) {
    addEventListener("hashchange", focus, { once: true });
    go("ask", {});
  } else focus();
});
byId("skip").addEventListener("click", () => setTimeout(() => byId("question").focus()));

function shown(view, values, before) {
  if (view === "ask") {
    asking.show(values);
    // On a phone it would open the keyboard over the page.
    if (before === null && !values.question && matchMedia("(hover: hover)").matches) byId("question").focus({ preventScroll: true });
  }
  if (view === "documents") {
    showStatus();
    if (values.paste) pasting.open(true);
  }
  if (view === "document") one.show(values, before);
}

async function load() {
  say(byId("library-problem"), null);
  try {
    await library.ready();
    await showStatus();
  } catch (problem) {
    for (const line of ["library-problem", "ask-problem"]) say(byId(line), problem);
  }
}

/** Show the figures of the library, whether it can be changed, and what its reader can do. */
async function showStatus() {
  const figures = await status().catch(() => ({}));
  document.body.classList.toggle("read-only", Boolean(figures.read_only));
  look.show(figures);
  const isListed = library.isLoaded && !byId("view-documents").hidden;
  await documents.show(figures, isListed).catch(failed);
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

function leaving(names) {
  library.hide(names, true);
  documents.focusNear(names[0]);
}

function back(names) {
  library.hide(names, false);
  documents.focusNear(names[0]);
}

function gone(names) {
  library.drop(names);
}

function failed(problem) {
  say(byId("library-problem"), problem);
}
