// The question, where to look for its answer, and what follows: answers, examples, and the questions of before.

import { showAnswers } from "./answers.js";
import { byId, element, say, working } from "./elements.js";
import { QuestionHistory } from "./history.js";
import { address, go } from "./routes.js";
import { ownExamples } from "./examples.js";
import { SAMPLES, SAMPLE_EXAMPLES } from "./samples.js";
import { ask, putDocument, showDocument } from "./server.js";

/** Start the view. */
export function startAsking({ library }) {
  const [form, field, scope] = [byId("question-form"), byId("question"), byId("scope")];
  const [button, problem] = [byId("ask-button"), byId("ask-problem")];
  const past = new QuestionHistory();
  // The question and document of the answers that are shown.
  let asked = null;
  // The items of each list, as they were drawn last.
  const drawn = new Map();
  // Questions that the library's own documents answer, once they are found.
  let examples = null;

  /** Show an address: ask its question, unless its answers are shown already. */
  function show({ question = "", document = "" }) {
    choose(document);
    byId("tab-ask").href = address("ask", { question, document });
    if (!question) {
      asked = null;
      say(problem, null);
      byId("answers-said").textContent = "";
      field.value = "";
      draw();
      return;
    }
    field.value = question;
    if (asked?.question === question && asked.document === document) return;
    asked = { question, document };
    answer(asked);
  }

  function answer(mine) {
    return working(button, problem, async () => {
      byId("answers-said").textContent = "";
      try {
        await library.ready();
        choose(mine.document);
        const about = scope.value || null;
        const reply = await ask(mine.question, about);
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

  function pastQuestion({ question, document }) {
    const where = document ? [element("span", { class: "aside" }, `in ${document}`)] : [];
    const again = () => {
      asked = null;
      scrollTo(0, 0);
      go("ask", { question, document });
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
      go("ask", { question, document: scope.value });
    });
  }

  /** Set the scope: a document, or "" for all. */
  function choose(document) {
    scope.value = document;
    offerNames();
  }

  /** Offer the documents that fit what is typed. */
  async function offerNames() {
    const typed = scope.value;
    const found = await library.matching(typed).catch(() => []);
    if (typed !== scope.value) return;
    const options = found.map(({ name, title }) => {
      const option = new Option(title && title !== name ? title : "", name);
      option.value = name;
      return option;
    });
    byId("scope-names").replaceChildren(...options);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (!question) return;
    asked = null;
    go("ask", { question, document: scope.value });
  });
  scope.addEventListener("input", offerNames);
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
    choose(scope.value);
    draw();
  });

  return { show };
}
