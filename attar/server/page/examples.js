// Questions to begin with, made from what the library's own documents say, and kept if they are answered right.

import { askMany, showDocument } from "./server.js";

// Documents that are looked at, and of each so many characters.
const DOCUMENTS = 24;
const CHARACTERS = 20_000;
// Questions that are tried at a time, the most times, and those that are shown.
const TRIED = 12;
const TIMES = 3;
const SHOWN = 4;

const SENTENCE = String.raw`(?:^|[.!?]\s+|\n)`;
const SUBJECT = String.raw`((?:[\w’'-]+ ){0,2}?[a-z][\w’'-]+)`;
const MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)";
const WHEN = new RegExp(String.raw`^(?:(?:on|at|in) )?(?:\d\d?:\d\d|(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,? )?(?:\d\d? )?${MONTH}\b)`);
// Words that make no question, or one that nobody would ask.
const VAGUE = /^(?:only|first|last|other|same|following|subject|from|to|note|present|question|answer|name|way|reason|result|apologies)\b|\b(?:that|which|who|since|until|responsible|spent|paid|yes|no)\b|\b(?:to|by|for|of|at|on|in|with)$/i;

/** A sentence's words as a question, and the words of its answer; the likeliest to be asked come first. */
const PATTERNS = [
  // "Priya Nair chaired the meeting."
  [`${SENTENCE}([A-Z][\\w’'-]+ [A-Z][\\w’'-]+) ([a-z]+(?:ed|s)) (the [a-z]+(?: [a-z]+)?)\\.`, (who, did, what) => [`Who ${did} ${what}?`, who]],
  // "The cabin costs 214 euros."
  [`${SENTENCE}(?:The|A|An) ${SUBJECT} costs? ([£$€]?\\d[^.!?;,\\n]{0,30})`, (subject, value) => [`How much does a ${subject} cost?`, value]],
  // "The working week has 37.5 hours."
  [`${SENTENCE}(?:The|Our) ${SUBJECT} has (\\d[\\d.,]*) ([a-z]+s(?: of [a-z]+)?)\\b`, (subject, value, unit) => [`How many ${unit} does the ${subject} have?`, value]],
  // "The work begins on 1 September 2026."
  [`${SENTENCE}(?:The|Our) ${SUBJECT} (begin|start|end|open|close)s (?:on|at|in) (\\d[^.!?;,\\n]{2,30})`, (subject, verb, value) => [`When does the ${subject} ${verb}?`, value]],
  // "Invoice date: 3 May 2026"
  [`^([A-Z][A-Za-z ]{3,30}): +(\\S[^\\n]{1,60})$`, (label, value) => whatIs("is", label[0].toLowerCase() + label.slice(1), value)],
  // "The next meeting is on 9 April." "The phone of Ann Lee is 1074."
  [
    `${SENTENCE}(?:The|Our) ${SUBJECT.slice(0, -1)}(?: of [A-Z][\\w’'-]+(?: [A-Z][\\w’'-]+)*)?) (is|are|was|were) ([^.!?;,\\n]{2,70})`,
    (subject, verb, value) => whatIs(verb, subject, value),
  ],
].map(([pattern, made]) => [new RegExp(pattern, "gm"), made]);

function whatIs(verb, subject, value) {
  const word = WHEN.test(value) && !/\b(?:date|day|month|year)\b/.test(subject) ? "When" : "What";
  const isAsked = word === "When" || /^(?:an? |the |[\d£$€A-Z])/.test(value);
  return isAsked ? [`${word} ${verb} the ${subject}?`, value] : null;
}

/** At most four questions whose answers were checked, from different documents if there are some. */
export async function ownExamples(documents) {
  const chosen = spread(documents.filter(({ fault }) => !fault), DOCUMENTS);
  const texts = await Promise.all(chosen.map(({ name }) => showDocument(name)));
  const waiting = inTurn(
    texts.map(({ name, text }) => questionsOf((text ?? "").slice(0, CHARACTERS)).map((each) => ({ ...each, name }))),
  );
  const right = [];
  for (let time = 0; time < TIMES && waiting.length && right.length < SHOWN; time += 1) {
    const tried = waiting.splice(0, TRIED);
    const results = await askMany(tried.map(({ question }) => question));
    right.push(...tried.filter((each, at) => isRight(results[at].answers[0], each)).map(({ question }) => question));
  }
  return [...new Set(right)].slice(0, SHOWN);
}

/** Questions that a text answers, each with the words that its answer is part of. */
function questionsOf(text) {
  const found = new Map();
  for (const [pattern, made] of PATTERNS) {
    for (const [, ...words] of text.matchAll(pattern)) {
      const [question, value] = made(...words) ?? [];
      if (question && !VAGUE.test(words[0]) && !VAGUE.test(value) && !found.has(question)) found.set(question, value);
    }
  }
  return [...found].map(([question, value]) => ({ question, value }));
}

/** Whether an answer comes from its document, and is more than a guess. */
function isRight(answer, { value, name }) {
  if (!answer || answer.kind === "none" || answer.certainty === "unsure" || answer.document !== name) return false;
  const [said, wanted] = [answer.text.toLowerCase(), value.toLowerCase()];
  return wanted.includes(said) || said.includes(wanted);
}

/** The first of each list, then the second of each, and so on. */
function inTurn(lists) {
  const most = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: most }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
}

/** At most so many of a list, from all parts of it. */
function spread(list, most) {
  const step = Math.max(1, list.length / most);
  return Array.from({ length: Math.min(most, list.length) }, (_, at) => list[Math.floor(at * step)]);
}
