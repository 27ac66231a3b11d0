// Answers as cards: the phrase, the sentence that it is in, the document and the place, and how likely it is.

import { byId, element } from "./elements.js";
import { bytes, counted, seconds, wholePercent } from "./figures.js";
import { address } from "./routes.js";

// Less likely answers than this are not shown, unless there is no other.
const LEAST = 0.005;
// Passages that are shown where no document has the answer.
const CLOSEST = 3;
// A "not found" that is less likely than this is not worth a line.
const DOUBT = 0.05;

const isAbsent = ({ kind }) => kind === "none";

/** Show a reply; `about` has the document or the subset that was asked, or neither if all were. */
export function showAnswers({ answers, document, seconds: took, bytes: read, missing = [], by_words = 0 }, about) {
  const from = (answer) => ({ ...answer, document: answer.document ?? document ?? about.document });
  const [first, ...rest] = answers.map(from);
  const isFound = first !== undefined && !isAbsent(first);
  const phrases = rest.filter((answer) => !isAbsent(answer));
  const others = isFound ? phrases.filter(({ probability }) => probability >= LEAST) : closest(phrases);
  const doubt = rest.find((answer) => isAbsent(answer) && answer.probability >= DOUBT);

  byId("best").replaceChildren(isFound ? found(first) : notFound(first, about));
  byId("others").replaceChildren(...others.map(isFound ? found : passage));
  byId("others-heading").textContent = isFound ? "Other possibilities" : "The closest passages";
  byId("others-heading").hidden = !others.length;
  const parts = [];
  if (missing.length) parts.push(`Some documents could not be asked now (${missing.join(", ")}); ask again in a minute.`);
  if (by_words) parts.push(`Documents were found by their words only: ${counted(by_words, "document")} are still being prepared.`);
  if (doubt && isFound) parts.push(doubted(doubt, first, about));
  parts.push(`Answered in ${seconds(took)}${read ? ` from ${bytes(read)} of memory` : ""}.`);
  byId("answer-cost").textContent = parts.join(" ");
  byId("answers-said").textContent = isFound
    ? [`${first.text}, ${chance(first)}.`, first.quote?.replace(/\s+/g, " ") ?? "", `From ${first.document}.`].join(" ")
    : `${sentence(about)} ${others.length ? "The closest passages follow." : ""}`;
}

/** The first sentences of phrases, each once; a phrase without its sentence says nothing. */
function closest(phrases) {
  const byQuote = new Map(phrases.map((answer) => [answer.quote, answer]).reverse());
  byQuote.delete(undefined);
  return phrases.filter((answer) => byQuote.get(answer.quote) === answer).slice(0, CLOSEST);
}

/** The card of an answer: a link to its place in its document. */
function found(answer) {
  return element(
    "li",
    { class: "answer" },
    element(
      "a",
      { class: "card", href: placeOf(answer) },
      element("p", { class: "phrase" }, answer.text),
      ...quoted(answer),
      source(answer),
    ),
  );
}

/** A passage that may help though it does not answer: its sentence, of which nothing is marked. */
function passage(answer) {
  const quote = element("q", { class: "quote" }, answer.quote);
  const where = element("p", { class: "source" }, ...placed(answer));
  return element("li", { class: "answer" }, element("a", { class: "card", href: placeOf(answer) }, quote, where));
}

function notFound(answer, about) {
  const likely = answer ? [element("p", { class: "source" }, element("span", {}, chance(answer)))] : [];
  const line = element("p", { class: "phrase" }, sentence(about));
  return element("li", { class: "answer absent" }, element("div", { class: "card" }, line, ...likely));
}

function sentence(about) {
  const said = notSaid(about, "this");
  return `${said[0].toUpperCase()}${said.slice(1)}.`;
}

function notSaid({ document, within }, what) {
  if (document !== null) return `this document does not say ${what}`;
  return within ? `none of these documents says ${what}` : `none of your documents says ${what}`;
}

/** What stands below an answer about there being none; no number that is above the answer's own. */
function doubted(doubt, first, about) {
  if (doubt.probability > first.probability) return `Perhaps ${notSaid(about, "it")}.`;
  return `That ${notSaid(about, "it")}: ${wholePercent(doubt.probability)}.`;
}

/** The server's word for the certainty, then the number. */
function chance({ certainty, probability }) {
  return `${certainty[0].toUpperCase()}${certainty.slice(1)} · ${wholePercent(probability)}`;
}

function source(answer) {
  const filled = element("i");
  filled.style.inlineSize = `${answer.probability * 100}%`;
  const meter = element("span", { class: "meter", "aria-hidden": "true" }, filled);
  return element(
    "p",
    { class: "source" },
    ...placed(answer),
    element("span", { class: "chance" }, meter, chance(answer)),
  );
}

function placed({ document, place }) {
  const parts = [element("span", { class: "name" }, document)];
  if (place) parts.push(element("span", { class: "place" }, place));
  return parts;
}

function placeOf({ document, text, start, end }) {
  return address("document", { name: document, start, end, phrase: start === undefined ? text : null });
}

function quoted({ quote, text }) {
  return quote ? [element("q", { class: "quote" }, ...marked(quote, text))] : [];
}

/** A sentence with a phrase of it marked: as whole words if it also occurs inside of a longer word. */
export function marked(sentence, phrase) {
  const escaped = phrase.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = sentence.search(new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "u"));
  const at = whole < 0 ? sentence.indexOf(phrase) : whole;
  if (at < 0 || !phrase) return [sentence];
  const end = at + phrase.length;
  return [sentence.slice(0, at), element("mark", {}, phrase), sentence.slice(end)];
}
