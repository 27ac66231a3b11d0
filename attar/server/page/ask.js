// The question, where to look for its answer, and what follows: answers, examples, and the questions of before.

import { showAnswers } from "./answers.js";
import { byId, element, say, working } from "./elements.js";
import { ownExamples } from "./examples.js";
import { counted } from "./figures.js";
import { address, go } from "./routes.js";
import { ask } from "./server.js";

// What the browser keeps: the questions that were asked, the latest first, at most so many.
const [QUESTIONS, MOST] = ["attar.questions", 12];
// Folders and tags that are offered while one types.
const OFFERED = 12;

/** Start the view. */
export function startAsking({ library }) {
  const [form, field] = [byId("question-form"), byId("question")];
  const [button, problem] = [byId("ask-button"), byId("ask-problem")];
  const scope = startScope({ library, changed: () => go("ask", {}) });
  let past = kept();
  // The question of the answers that are shown, and where it was asked.
  let asked = null;
  // The items of each list, as they were drawn last.
  const drawn = new Map();
  // Questions that the library's own documents answer, once they are found.
  let examples = null;

  /** Show an address: ask its question, unless its answers are shown already. */
  function show({ question = "", document = "", chosen = "" }) {
    scope.show({ document, chosen });
    byId("to-ask").href = address("ask", { question, document, chosen });
    field.value = question;
    if (!question) {
      asked = null;
      say(problem, null);
      byId("answers-said").textContent = "";
      draw();
      return;
    }
    if (asked?.question === question && asked.document === document && asked.chosen === chosen) return;
    asked = { question, document, chosen };
    answer(asked);
  }

  function answer(mine) {
    return working(button, problem, async () => {
      byId("answers-said").textContent = "";
      try {
        if (!library.isLoaded) await library.load();
        scope.show(mine);
        const about = scope.subject();
        const reply = await ask(mine.question, about);
        // Another question may have been asked in the meantime.
        if (mine !== asked) return;
        showAnswers(reply, about);
        remember([mine, ...past.filter((other) => JSON.stringify(other) !== JSON.stringify(mine))].slice(0, MOST));
      } catch (fault) {
        if (mine === asked) asked = null;
        throw fault;
      } finally {
        draw();
      }
    });
  }

  function draw() {
    const isEmpty = library.isLoaded && library.count === 0;
    byId("answered").hidden = asked === null;
    byId("opening").hidden = asked !== null;
    byId("welcome").hidden = asked !== null || !isEmpty;
    byId("examples").hidden = asked !== null || !examples?.length;
    drawList("example-list", examples ?? [], (question) => questionButton(question, () => go("ask", { question, ...scope.values() })));
    if (asked === null && library.count && examples === null) findExamples();
    byId("history").hidden = !past.length;
    drawList("history-list", past, pastQuestion);
  }

  async function findExamples() {
    examples = [];
    examples = await ownExamples(library.documents).catch(() => []); // the page is as useful without
    draw();
  }

  /** Make the items of a list, unless they are the same as before: a click on a button that is replaced is lost. */
  function drawList(id, items, made) {
    const now = JSON.stringify(items);
    if (drawn.get(id) === now) return;
    drawn.set(id, now);
    byId(id).replaceChildren(...items.map(made));
  }

  function pastQuestion({ question, document, chosen }) {
    const place = chosen ? "some documents" : document;
    const where = place ? [element("span", { class: "aside" }, `in ${place}`)] : [];
    const again = () => {
      asked = null;
      scrollTo(0, 0);
      go("ask", { question, document, chosen });
    };
    return questionButton(question, again, ...where);
  }

  function questionButton(question, onclick, ...where) {
    return element("li", {}, element("button", { type: "button", onclick }, question, ...where));
  }

  function remember(questions) {
    past = questions;
    try {
      localStorage.setItem(QUESTIONS, JSON.stringify(questions));
    } catch {
      /* where the browser blocks that, they are kept as long as the page */
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (!question) return;
    asked = null;
    go("ask", { question, ...scope.values() });
  });
  // Enter asks; a line break in a question needs the shift key.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  byId("clear-history").addEventListener("click", () => {
    remember([]);
    draw();
    field.focus();
  });
  library.addEventListener("change", () => {
    scope.offer();
    draw();
  });

  return { show };
}

/** Start the field for where to look: in all documents, one of them, a folder, a tag, or some that were chosen. */
function startScope({ library, changed }) {
  const [field, clear] = [byId("scope"), byId("scope-clear")];
  let chosen = [];

  /** Show what an address has: a name, "folder/" or "#tag" as `document`, names as JSON in `chosen`. */
  function show({ document = "", chosen: written = "" }) {
    chosen = namesIn(written);
    field.value = chosen.length ? counted(chosen.length, "document") : document;
    field.readOnly = chosen.length > 0;
    clear.hidden = !chosen.length;
    offer();
  }

  /** What an address has. */
  function values() {
    return chosen.length ? { chosen: JSON.stringify(chosen) } : { document: field.value.trim() };
  }

  /** What the server is asked about: a document, or a subset, or neither. */
  function subject() {
    const typed = field.value.trim();
    if (chosen.length) return { document: null, within: { names: chosen } };
    if (!typed) return { document: null, within: null };
    const isName = library.documents.some(({ name }) => name === typed);
    if (!isName && typed.endsWith("/")) return { document: null, within: { folder: typed } };
    if (!isName && typed.startsWith("#")) return { document: null, within: { tags: [typed.slice(1)] } };
    return { document: typed, within: null };
  }

  /** Offer folders, tags and documents that fit what is typed. */
  async function offer() {
    const typed = field.value;
    const found = await library.matching(typed).catch(() => []);
    if (typed !== field.value) return;
    const wanted = typed.trim().toLowerCase();
    const groups = [...library.folders.keys()].map((folder) => `${folder}/`);
    groups.push(...[...library.tags.keys()].map((tag) => `#${tag}`));
    const options = groups.filter((group) => group.toLowerCase().includes(wanted)).slice(0, OFFERED).map((group) => option(group, ""));
    options.push(...found.map(({ name, title }) => option(name, title && title !== name ? title : "")));
    byId("scope-names").replaceChildren(...options);
  }

  field.addEventListener("input", offer);
  clear.addEventListener("click", () => {
    show({});
    field.focus();
    changed();
  });

  return { show, values, subject, offer };
}

function option(value, title) {
  const made = new Option(title, value);
  made.value = value;
  return made;
}

/** The questions that this browser keeps. */
function kept() {
  try {
    return JSON.parse(localStorage.getItem(QUESTIONS)) ?? [];
  } catch {
    return [];
  }
}

/** The names in an address, which anybody may have written. */
function namesIn(written) {
  try {
    const names = JSON.parse(written);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
  } catch {
    return [];
  }
}
