// The entry point: creates the panels and connects them; panels do not know each other.

import { startAccess } from "./access.js";
import { startAdding, startAppending } from "./adding.js";
import { startAsking } from "./asking.js";
import { startDeletions } from "./deletions.js";
import { byId, say } from "./elements.js";
import { counted } from "./figures.js";
import { startLibrary } from "./library.js";
import { startLoad } from "./load.js";
import { startMemory } from "./memory.js";
import { showDocument } from "./server.js";
import { startWords } from "./words.js";

// Texts that were added in this tab: their words can be shaded even if the library keeps no texts.
const texts = new Map();

const memory = startMemory();
const words = startWords({ textOf: (name) => texts.get(name) });
const asking = startAsking({ answered: words.asked });
const openAppend = startAppending({ appended });
const deletions = startDeletions({ leaving, back, gone, failed });
const library = startLibrary({
  chosen,
  append: openAppend,
  remove: deletions.start,
  isHidden: deletions.has,
});
startAdding({ added, appended, beforeAdding: deletions.cancel });
const load = startLoad();
startAccess({ given: retry });
start();
// A page that the browser restores from its cache is out of date.
addEventListener("pageshow", (event) => event.persisted && start());

async function start() {
  await library.load();
  const named = new URLSearchParams(location.hash.slice(1)).get("document");
  if (named !== null) library.choose(named);
}

function retry() {
  load.retry();
  start();
}

async function chosen(name) {
  const place = name === null ? location.pathname : `#${new URLSearchParams({ document: name })}`;
  history.replaceState(null, "", place);
  say(byId("library-problem"), null);
  asking.about(name);
  words.about(name);
  memory.show(null);
  if (name === null) return;
  try {
    const document = await showDocument(name);
    if (library.current() !== name) return;
    words.keeps(document.text !== null);
    memory.show(document);
  } catch (problem) {
    failed(problem);
  }
}

function added(facts, text) {
  texts.set(facts.name, text);
  byId("library-said").textContent = `${facts.name} was added: ${counted(facts.tokens, "token")}.`;
  library.put(facts);
  library.choose(facts.name);
  byId("question").focus();
}

function appended(facts, text) {
  if (texts.has(facts.name)) texts.set(facts.name, `${texts.get(facts.name)}\n\n${text}`);
  byId("library-said").textContent = `${facts.name} has grown to ${counted(facts.tokens, "token")}.`;
  library.put(facts);
  library.choose(facts.name);
}

function leaving(name) {
  library.draw();
  if (library.current() === name) library.choose(null);
  library.focusNear(name);
}

function back(name) {
  library.draw();
  library.focusNear(name);
}

function gone(name) {
  texts.delete(name);
  library.drop(name);
}

function failed(problem) {
  say(byId("library-problem"), problem);
}
