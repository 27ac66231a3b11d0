// The question form, the answers, and the measured cost of softmax.

import { byId, element, say, working } from "./elements.js";
import { bytes, counted, percent, rate, seconds } from "./figures.js";
import { Problem, ask, measureSoftmax } from "./server.js";

const NO_NAMES = "The document contains no names to answer with.";

/** Start the question form; `answered(name, question)` is called after each answer. */
export function startAsking({ answered }) {
  const [form, question, button] = [byId("question-form"), byId("question"), byId("ask-button")];
  const measure = byId("measure");
  let name = null;

  /** Select the document to ask; null selects none. */
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
      const reply = await ask(whose, asked);
      // Another document may have been selected in the meantime.
      if (whose !== name) return;
      show(reply);
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
      const comparison = await measureSoftmax(whose);
      if (whose !== name) return;
      byId("costs").replaceChildren(...costs(comparison));
      byId("costs").hidden = false;
    }),
  );

  return { about };
}

/** One answer: its text, and its probability as a bar and as a number. */
function bar({ text, probability }) {
  const filled = element("span", { class: "filled" });
  filled.style.inlineSize = `${probability * 100}%`;
  return element(
    "li",
    {},
    element("span", { class: "answer" }, text),
    element("span", { class: "bar", "aria-hidden": "true" }, filled),
    element("span", { class: "share" }, percent(probability)),
  );
}

/** The costs of a lookup and of softmax on the same document: two bars on one scale, and their ratio. */
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
  const summary = `Over ${counted(tokens, "token")} softmax takes ${times}, measured on the server just now.`;
  return [
    line("This memory", lookup, "ours"),
    line("Softmax", softmax, "theirs"),
    element("li", { class: "factor aside" }, summary),
  ];
}
