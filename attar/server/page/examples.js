// Questions to begin with, made from what the library's own documents say, and kept if they are answered right.

import { askMany, showDocument } from "./server.js";

// Documents that are looked at, and of each so many characters.
const DOCUMENTS = 8;
const CHARACTERS = 20_000;
// Questions that are tried, of each document, and shown.
const TRIED = 16;
const PER_DOCUMENT = 4;
const SHOWN = 4;
// An answer below this is too doubtful to show off with.
const SURE = 0.3;

// "The next meeting is on 9 April." Of "it is" and "that is" nobody can ask.
const STATEMENT = /(?:^|[.!?]\s+)(The|Our) ((?:[\w’'-]+ ){0,3}?[a-z][\w’'-]+) (is|are|was|were) ([^.!?;,\n]{3,70})/g;
// "Invoice date: 3 May 2026"
const FIELD = /^([A-Z][A-Za-z ]{3,30}): +(\S[^\n]{1,60})$/gm;
const WHEN = /^(?:on|at|in) (?=\S*\d|Mon|Tues|Wednes|Thurs|Fri|Satur|Sun|Jan|Feb|March|April|May|June|July|Aug|Sept|Oct|Nov|Dec)/;

/** At most four questions whose answers were checked. */
export async function ownExamples(documents) {
  const chosen = spread(documents.filter(({ fault }) => !fault), DOCUMENTS);
  const texts = await Promise.all(chosen.map(({ name }) => showDocument(name)));
  const tried = texts.flatMap(({ text }) => questionsOf((text ?? "").slice(0, CHARACTERS)).slice(0, PER_DOCUMENT)).slice(0, TRIED);
  if (!tried.length) return [];
  const results = await askMany(tried.map(({ question }) => question));
  const right = tried.filter(({ value }, at) => isRight(results[at].answers[0], value));
  return spread([...new Set(right.map(({ question }) => question))], SHOWN);
}

/** Questions that a text answers, each with the words that its answer is part of. */
export function questionsOf(text) {
  const found = [];
  for (const [, label, value] of text.matchAll(FIELD)) {
    found.push({ question: `What is the ${lower(label)}?`, value });
  }
  for (const [, , subject, verb, value] of text.matchAll(STATEMENT)) {
    const word = WHEN.test(value) ? "When" : "What";
    if (word === "When" || /^(?:an? |the |\d|[A-Z])/.test(value)) {
      found.push({ question: `${word} ${verb} the ${subject}?`, value });
    }
  }
  return found;
}

function isRight(answer, value) {
  if (!answer || answer.kind === "none" || answer.probability < SURE) return false;
  const [said, wanted] = [answer.text.toLowerCase(), value.toLowerCase()];
  return wanted.includes(said) || said.includes(wanted);
}

/** At most so many of a list, from all parts of it. */
function spread(list, most) {
  const step = Math.max(1, list.length / most);
  return Array.from({ length: Math.min(most, list.length) }, (_, at) => list[Math.floor(at * step)]);
}

function lower(label) {
  return label[0].toLowerCase() + label.slice(1);
}
