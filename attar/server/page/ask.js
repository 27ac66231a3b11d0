// The question, where to look for its answer, and what follows: answers, examples, and the questions of before.

import { showAnswers } from "./answers.js";
import { byId, element, say, working } from "./elements.js";
import { QuestionHistory } from "./history.js";
import { address, go } from "./routes.js";
import { ownExamples } from "./examples.js";
import { SAMPLES, SAMPLE_EXAMPLES } from "./samples.js";
import { startScope } from "./scope.js";
import { ask, putDocument, showDocument } from "./server.js";

/** Start the view; `look()` is the number of sentences that are read again, null for the server's own. */
export function startAsking({ library, look }) {
  const [form, field] = [byId("question-form"), byId("question")];
  const [button, problem] = [byId("ask-button"), byId("ask-problem")];
  const scope = startScope({ library, changed: () => go("ask", {}) });
  const past = new QuestionHistory();
  // The question of the answers that are shown, and where it was asked.
  let asked = null;
  // The items of each list, as they were drawn last.
  const drawn = new Map();
  // Questions that the library's own documents answer, once they are found.
  let examples = null;

  /** Show an address: ask its question, unless its answers are shown already. */
  function show({ question = "", document = "", chosen = "" }) {
    scope.show({ document, chosen });
    byId("tab-ask").href = address("ask", { question, document, chosen });
    if (!question) {
      asked = null;
      say(problem, null);
      byId("answers-said").textContent = "";
      field.value = "";
      draw();
      return;
    }
    field.value = question;
    if (asked?.question === question && asked.document === document && asked.chosen === chosen) return;
    asked = { question, document, chosen };
    answer(asked);
  }

  function answer(mine) {
    return working(button, problem, async () => {
      byId("answers-said").textContent = "";
      try {
        await library.ready();
        scope.show(mine);
        const about = scope.subject();
        const reply = await ask(mine.question, about, look());
        // Another question may have been asked in the meantime.
        if (mine !== asked) return;
        showAnswers(reply, about);
        past.add(mine);
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
    byId("examples-heading").textContent = isEmpty ? "Or try it on two sample texts" : "For example";
    const offered = isEmpty || hasSamples() ? SAMPLE_EXAMPLES : (examples ?? []);
    byId("examples").hidden = asked !== null || !library.isLoaded || !offered.length;
    drawList("example-list", offered, (question) =>
      element("li", {}, element("button", { type: "button", onclick: () => tryOut(question) }, question)),
    );
    if (asked === null && !isEmpty && library.isLoaded && examples === null && !hasSamples()) findExamples();
    byId("history").hidden = !past.questions.length;
    drawList("history-list", past.questions, pastQuestion);
  }

  function hasSamples() {
    return Object.keys(SAMPLES).every((sample) => library.shown.some(({ name }) => name === sample));
  }

  async function findExamples() {
    examples = [];
    try {
      examples = await ownExamples(library.shown);
    } catch {
      return; // the page is as useful without
    }
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
    return element("li", {}, element("button", { type: "button", onclick: again }, question, ...where));
  }

  /** Ask an example; an empty library gets the samples first. */
  function tryOut(question) {
    return working(button, problem, async () => {
      if (library.count === 0) {
        for (const [name, text] of Object.entries(SAMPLES)) {
          await putDocument(name, text, false);
          library.put(await showDocument(name));
        }
      }
      go("ask", { question, ...scope.values() });
    });
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
    past.clear();
    draw();
    field.focus();
  });
  library.addEventListener("change", () => {
    scope.offer();
    draw();
  });

  return { show };
}
