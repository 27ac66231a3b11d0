// The question form, the answers, and the measured cost of softmax.

import { byId, element, say, working } from "./elements.js";
import { bytes, counted, percent, rate, seconds } from "./figures.js";
import { Problem, ask, measureSoftmax } from "./server.js";

const ABSENT = "Not in this text";
const NOTHING = "The document contains nothing to answer with.";
// Less likely answers than this are not shown, unless there is no other.
const LEAST = 0.005;

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
    const shown = answers.filter(({ probability }, place) => place === 0 || probability >= LEAST);
    byId("answers").replaceChildren(...shown.map(bar));
    byId("answer-cost").textContent = `${seconds(took)} on the server · ${bytes(read)} read`;
    const best = shown.slice(0, 3).map((answer) => `${said(answer)}, ${percent(answer.probability)}`);
    const quote = shown[0]?.quote ? `. ${shown[0].quote}` : "";
    byId("answers-said").textContent = best.join("; ") + quote || NOTHING;
    if (!shown.length) byId("answers").append(element("li", { class: "empty" }, NOTHING));
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

/** An answer in words. */
function said({ text, kind }) {
  return kind === "none" ? ABSENT : text;
}

/** One answer: its text, its probability as a bar and as a number, and the sentence that it is in. */
function bar(answer) {
  const { text, probability, kind, quote } = answer;
  const filled = element("span", { class: "filled" });
  filled.style.inlineSize = `${probability * 100}%`;
  return element(
    "li",
    {},
    element("span", { class: kind === "none" ? "answer absent" : "answer" }, said(answer)),
    element("span", { class: "bar", "aria-hidden": "true" }, filled),
    element("span", { class: "share" }, percent(probability)),
    ...(quote ? [element("q", { class: "quote" }, ...marked(quote, text))] : []),
  );
}

/** A sentence with a phrase of it marked: as whole words if it also occurs inside of a longer word. */
function marked(sentence, phrase) {
  const escaped = phrase.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = sentence.search(new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "u"));
  const at = whole < 0 ? sentence.indexOf(phrase) : whole;
  if (at < 0) return [sentence];
  const end = at + phrase.length;
  return [sentence.slice(0, at), element("mark", {}, phrase), sentence.slice(end)];
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
