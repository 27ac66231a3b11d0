// Asking a document, and what softmax would have cost on it.

import { byId, element, say, working } from "./elements.js";
import { bytes, counted, percent, rate, seconds } from "./figures.js";
import { Problem, ask, measureSoftmax } from "./server.js";

const NO_NAMES = "The document holds no names to answer with.";

/** The question box. `answered(name, question)` hears of each question that was answered. */
export function startAsking({ answered }) {
  const [form, question, button] = [byId("question-form"), byId("question"), byId("ask-button")];
  const measure = byId("measure");
  let name = null;

  /** From now on questions are about this document; null: about none. */
  function about(document) {
    name = document;
    byId("ask-heading").textContent = name === null ? "Ask" : `Ask ${name}`;
    clear();
  }

  function clear() {
    byId("answered").hidden = true;
    byId("answers-said").textContent = "";
    byId("costs").hidden = true;
    for (const line of ["ask-problem", "softmax-problem"]) say(byId(line), null);
  }

  function show({ answers, seconds: took, bytes: read }) {
    byId("answers").replaceChildren(...answers.map(bar));
    byId("answer-cost").textContent = `${seconds(took)} on the server · ${bytes(read)} read`;
    const best = answers.slice(0, 3).map((answer) => `${answer.text}, ${percent(answer.probability)}`);
    byId("answers-said").textContent = best.join("; ") || NO_NAMES;
    if (!answers.length) byId("answers").append(element("li", { class: "empty" }, NO_NAMES));
    byId("answered").hidden = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [whose, asked] = [name, question.value.trim()];
    working(button, byId("ask-problem"), async () => {
      if (whose === null) throw new Problem("Choose a document first.");
      clear();
      const told = await ask(whose, asked);
      // Another document may have been chosen meanwhile.
      if (whose !== name) return;
      show(told);
      answered(whose, asked);
    });
  });

  byId("insert-gap").addEventListener("click", () => {
    question.setRangeText("___", question.selectionStart, question.selectionEnd, "end");
    question.focus();
  });

  measure.addEventListener("click", () =>
    working(measure, byId("softmax-problem"), async () => {
      const whose = name;
      const told = await measureSoftmax(whose);
      if (whose !== name) return;
      byId("costs").replaceChildren(...costs(told));
      byId("costs").hidden = false;
    }),
  );

  return { about };
}

/** One answer: a name, a bar as long as it is likely, and the number itself. */
function bar({ name, probability }) {
  const filled = element("span", { class: "filled" });
  filled.style.inlineSize = `${probability * 100}%`;
  return element(
    "li",
    {},
    element("span", { class: "answer" }, name),
    element("span", { class: "bar", "aria-hidden": "true" }, filled),
    element("span", { class: "share" }, percent(probability)),
  );
}

/** What a lookup and softmax took on the same document: two bars on one scale, and the factor between them. */
function costs({ tokens, lookup, softmax }) {
  const longest = Math.max(lookup.seconds, softmax.seconds);
  const line = (what, cost, kind) => {
    const filled = element("span", { class: `filled ${kind}` });
    filled.style.inlineSize = `${(cost.seconds / longest) * 100}%`;
    return element(
      "li",
      {},
      element("span", { class: "answer" }, what),
      element("span", { class: "bar", "aria-hidden": "true" }, filled),
      element("span", { class: "share" }, `${seconds(cost.seconds)} · ${bytes(cost.bytes)}`),
    );
  };
  const factor = softmax.seconds / lookup.seconds;
  const times = factor >= 1 ? `${rate(factor)} times as long` : `${percent(factor)} of the time`;
  const said = `Over ${counted(tokens, "token")} softmax takes ${times}, measured just now on the server.`;
  return [
    line("This memory", lookup, "ours"),
    line("Softmax", softmax, "theirs"),
    element("li", { class: "factor aside" }, said),
  ];
}
