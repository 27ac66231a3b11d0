// The document's words, shaded by their weight for the question.

import { byId, element, say, working } from "./elements.js";
import { count } from "./figures.js";
import { Problem, explain } from "./server.js";

// A novel has too many words for the browser: of a long text the heaviest are shown, with their context.
const ALL = 4_000;
const HEAVIEST = 24;
const CONTEXT = 40;
const NO_SPACE_BEFORE = /^([.,;:!?)\]}%’”…]|'s|'|n't)/;
const NO_SPACE_AFTER = /^[([{“‘]$/;

/** Start the panel. */
export function startWords() {
  const [button, shaded, problem] = [byId("shade"), byId("shaded"), byId("words-problem")];
  const question = byId("words-question");
  let name = null;
  let isKept = Promise.resolve(false);
  let tell = () => {};

  /** Select a document; null selects none. */
  function about(document) {
    name = document;
    byId("words").hidden = name === null;
    isKept = new Promise((resolve) => (tell = resolve));
    shaded.hidden = true;
    byId("words-text").value = "";
    byId("words-paste").hidden = true;
    say(problem, null);
  }

  /** Set whether the library keeps the document's text. */
  function keeps(kept) {
    tell(kept);
    isKept = Promise.resolve(kept);
    byId("words-paste").hidden = kept;
  }

  /** Take over the question that was asked last. */
  function asked(last) {
    question.value = last;
    shaded.hidden = true;
  }

  /** What to explain. A click before the document is loaded waits for it. */
  async function source() {
    if (await isKept) return { document: name };
    const text = byId("words-text").value;
    if (!text.trim()) throw new Problem("The library did not keep the text. Paste it to see its words.");
    return { text };
  }

  byId("words-form").addEventListener("submit", (event) => {
    event.preventDefault();
    working(button, problem, async () => {
      const whose = name;
      const explanation = await explain(await source(), question.value.trim());
      if (whose !== name) return;
      shaded.replaceChildren(...passages(explanation));
      shaded.hidden = false;
      shaded.querySelector(".heaviest")?.scrollIntoView({ block: "nearest" });
    });
  });

  return { about, keeps, asked };
}

/** The tokens as paragraphs: all of a short text; of a long one those around its heaviest tokens. */
function passages({ tokens, weights: given }) {
  // A reader that weighs whole sentences gives all of them some weight: only what is above the least is shown.
  const least = given.reduce((low, weight) => Math.min(low, weight), Infinity);
  const weights = least > 0 && given.some((weight) => weight > least) ? given.map((w) => w - least) : given;
  const sizes = weights.map(Math.abs);
  const heaviest = sizes.reduce((best, size, place) => (size > sizes[best] ? place : best), 0);
  // Words of one sentence may share a weight: then the sentence is the heaviest.
  let end = heaviest;
  while (weights[end + 1] === weights[heaviest]) end += 1;
  const isHeaviest = (place) => place >= heaviest && place <= end;
  const token = (place) => shadedToken(tokens, weights, place, sizes[heaviest] || 1, isHeaviest(place));
  if (tokens.length <= ALL) return [element("p", {}, ...tokens.flatMap((_, place) => token(place)))];
  const order = [...sizes.keys()].sort((one, other) => sizes[other] - sizes[one]).slice(0, HEAVIEST);
  const shown = new Set();
  for (const middle of order) {
    for (let place = middle - CONTEXT; place <= middle + CONTEXT; place += 1) {
      if (place >= 0 && place < tokens.length) shown.add(place);
    }
  }
  const summary = `Of ${count(tokens.length)} tokens, those around the ${HEAVIEST} heaviest are shown.`;
  const made = [element("p", { class: "aside" }, summary)];
  let last = -2;
  for (const place of [...shown].sort((one, other) => one - other)) {
    if (place !== last + 1) made.push(element("p", {}, "… "));
    made.at(-1).append(...token(place));
    last = place;
  }
  return made;
}

/** A token, with a space before it where one belongs; a token without weight is plain text. */
function shadedToken(tokens, weights, place, limit, isHeaviest) {
  const token = tokens[place];
  const joined = place === 0 || NO_SPACE_BEFORE.test(token) || NO_SPACE_AFTER.test(tokens[place - 1]);
  const space = joined ? "" : " ";
  const strength = Math.abs(weights[place]) / limit;
  if (strength < 0.02) return [space + token];
  const kind = weights[place] < 0 ? "against" : "for";
  const mark = element("mark", { class: isHeaviest ? `${kind} heaviest` : kind }, token);
  mark.style.setProperty("--strength", `${Math.round(strength * 100)}%`);
  mark.title = weights[place].toPrecision(3);
  return [space, mark];
}
