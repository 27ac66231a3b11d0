// The entry point: creates the views and connects them; views do not know each other.

import { startPasting, startUploads } from "./adding.js";
import { startAsking } from "./ask.js";
import { startDocument } from "./document.js";
import { startDocuments } from "./documents.js";
import { askFor, byId, say } from "./elements.js";
import { counted, words } from "./figures.js";
import { Library } from "./library.js";
import { go, startRoutes } from "./routes.js";
import { Problem, keepToken, removeDocuments, showDocument, status, token } from "./server.js";

const library = new Library();
const append = (name) => go("documents", { append: name });
const asking = startAsking({ library });
const documents = startDocuments({ library, append, remove });
const one = startDocument({ append, remove });
const pasting = startPasting({ changed });
startUploads({
  started: () => go("documents"),
  added: async (name) => library.put(await showDocument(name)),
});
startRoutes({ shown });
load();
byId("open-token").addEventListener("click", () => askForToken(null));
document.addEventListener("tokenrequired", () =>
  askForToken(new Problem(token() ? "The server does not accept this token." : "The server requires a token.")),
);
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
    if (values.paste || values.append) pasting.open(true, values.append);
  }
  if (view === "document") one.show(values, before);
}

async function load() {
  say(byId("library-problem"), null);
  try {
    await library.load();
    await showStatus();
  } catch (problem) {
    for (const line of ["library-problem", "ask-problem"]) say(byId(line), problem);
  }
}

/** Show the figures of the library, whether it can be changed, and what its reader can do. */
async function showStatus() {
  const figures = await status().catch(() => ({}));
  document.body.classList.toggle("read-only", Boolean(figures.read_only));
  documents.showFigures(figures);
}

/** Load everything again, for example with another token. */
function again() {
  library.isLoaded = false;
  load();
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function askForToken(problem) {
  const asked = {
    title: "Token",
    about: "The token that attar serve was started with. It is kept in this tab until the tab is closed.",
    label: "Bearer token",
    type: "password",
    value: token(),
    action: "Use token",
  };
  const use = (given) => {
    keepToken(given.trim());
    again();
  };
  askFor(asked, use, problem);
}

function changed(document, was) {
  byId("library-said").textContent = `${document.name} ${was}: ${words(document.tokens)}.`;
  library.put(document);
  documents.focusNear(document.name);
}

/** Delete documents: all of them, or none if the server cannot. */
async function remove(...names) {
  const what = names.length === 1 ? `“${names[0]}”` : counted(names.length, "document");
  if (!confirm(`Delete ${what}? This cannot be undone.`)) return;
  go("documents");
  say(byId("library-problem"), null);
  try {
    await removeDocuments(names);
    library.drop(names);
    documents.focusNear(names[0]);
  } catch (problem) {
    await load();
    say(byId("library-problem"), problem);
  }
}
