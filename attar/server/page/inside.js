// What is inside: the memory of a document as a picture, its words by weight, what a question costs, and the load.

import { byId, element, say, working } from "./elements.js";
import { bytes, counted, percent, rate, seconds } from "./figures.js";
import { fillNames } from "./library.js";
import { startLoad } from "./load.js";
import { startMemory } from "./memory.js";
import { go } from "./routes.js";
import { measureSoftmax, showDocument } from "./server.js";
import { startWords } from "./words.js";

/** Start the view. */
export function startInside({ library }) {
  const [chosen, measure] = [byId("inside-document"), byId("measure")];
  const [memory, words, load] = [startMemory(), startWords(), startLoad()];
  let name = null;

  /** Show a document; the first one unless it is given. */
  async function show({ document }) {
    load.retry();
    say(byId("inside-problem"), null);
    try {
      await library.ready();
      about(document ?? name ?? library.shown[0]?.name ?? null);
      if (name === null) return;
      const mine = name;
      const found = await showDocument(mine, true);
      if (mine !== name) return;
      words.keeps(found.text !== null);
      memory.show(found);
    } catch (fault) {
      memory.show(null);
      words.keeps(false);
      say(byId("inside-problem"), fault);
    }
  }

  function about(document) {
    if (document !== name) {
      memory.show(null);
      byId("costs").hidden = true;
      say(byId("softmax-problem"), null);
      words.about(document);
    }
    name = document;
    const names = library.shown.map((each) => each.name);
    fillNames(chosen, name === null || names.includes(name) ? names : [name, ...names]);
    if (name !== null) chosen.value = name;
    byId("inside-empty").hidden = name !== null;
    byId("comparison").hidden = name === null;
    chosen.parentElement.hidden = name === null;
  }

  chosen.addEventListener("change", () => go("inside", { document: chosen.value }));
  measure.addEventListener("click", () =>
    working(measure, byId("softmax-problem"), async () => {
      const whose = name;
      const comparison = await measureSoftmax(whose);
      if (whose !== name) return;
      byId("costs").replaceChildren(...costs(comparison));
      byId("costs").hidden = false;
    }),
  );
  library.addEventListener("change", () => {
    const isGone = name !== null && library.next === null && !library.shown.some((each) => each.name === name);
    if (isGone) about(null);
  });

  return { show, asked: words.asked };
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
      element("span", {}, what),
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
