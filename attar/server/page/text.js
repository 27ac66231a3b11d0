// A document's text as a person reads it: headings, tables and paragraphs, with the phrase of an answer marked.

import { element } from "./elements.js";

const PARAGRAPH_END = /\n[ \t\r]*\n\s*/g;
// A line that was broken because it was full, and goes on.
const FULL_LINE = /([^\n]{60,140})(\r?\n)(?=\S)(?![-*•–] |\d+[.)] )/g;
// A heading is one short line that does not end as a sentence does.
const HEADING = /^(?!.*[.!?;,:]$)[^\n\t]{2,80}$/;
// A longer paragraph is no row of a table.
const LONGEST = 4_000;
// Nor has a row longer names of columns, or what it is about after so many characters.
const COLUMN = "((?:(?!\\. ).){1,100}?)";
const FIRST = 300;

// Times, days and years, which have "at", "on" and "in" before them.
const WHEN = /^(?:\d\d?:\d\d|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}\b|\d\d?\.? [A-Z][a-z]{2}|(?:19|20)\d\d|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\b)/;

/** The blocks of a part of a text; what of the phrase lies in each is marked. */
export function textBlocks(text, from, to, start, end) {
  // As long as before, so that places stay the same.
  const flowing = text.replace(FULL_LINE, (_, line, broken) => line + " ".repeat(broken.length));
  const piece = (at, until) => {
    const [low, high] = [Math.max(at, start), Math.min(until, end)];
    if (low >= high) return [flowing.slice(at, until)];
    return [flowing.slice(at, low), element("mark", {}, flowing.slice(low, high)), flowing.slice(high, until)];
  };
  const made = [];
  // Paragraphs that are rows of one table.
  let rows = [];
  const endTable = () => {
    const isTable = rows.length > 1 || rows[0]?.cells.size > 1;
    made.push(...(isTable ? [tableOf(rows, piece)] : rows.map(({ range }) => element("p", {}, ...piece(...range)))));
    rows = [];
  };
  let at = from;
  for (const gap of [...flowing.slice(from, to).matchAll(PARAGRAPH_END), null]) {
    const until = gap === null ? to : from + gap.index;
    const row = rowOf(flowing.slice(at, until).trimEnd(), at);
    if (row === null || (rows.length && !belongs(row, rows))) endTable();
    if (row !== null) rows.push({ ...row, range: [at, until] });
    else if (until > at) {
      const isHeading = gap !== null && HEADING.test(flowing.slice(at, until).trim());
      made.push(element(isHeading ? "h3" : "p", {}, ...piece(at, until)));
    }
    at = gap === null ? to : until + gap[0].length;
  }
  endTable();
  return made;
}

/**
 * A row of a table, of which the reader's text has "The price of Rope is 12. The length of Rope is 5.": its cells by
 * column, each with its place in the text, { key, cells: Map(column → [from, to]) }; null if it is none.
 */
function rowOf(line, at) {
  if (line.length > LONGEST || !line.endsWith(".")) return null;
  let best = null;
  for (const key of keysOf(line)) {
    const cells = cellsOf(line, at, key.text);
    if (cells !== null && (best === null || cells.size > best.cells.size)) {
      best = { key: [at + key.at, at + key.at + key.text.length], cells };
    }
  }
  return best;
}

/** What a row may be about: anything before " is " in its first sentence, from its beginning or a word such as "of". */
function* keysOf(line) {
  const end = line.search(/\. [A-Z]/);
  const first = line.slice(0, Math.min(end < 0 ? FIRST : end, FIRST));
  for (const { index: until } of first.matchAll(/ is /g)) {
    for (const { 0: word, index } of first.slice(0, until).matchAll(/ (?:of|on|at|in) |^(?:[OI]n |At )?/g)) {
      // "On Monday at 8:50", "Rent in 2026": these may be about Monday, 8:50 or Rent.
      const from = index + word.length;
      const next = index === 0 ? first.slice(from, until).search(/ (?:on|at|in) /) : -1;
      const text = first.slice(from, next < 0 ? until : from + next);
      if (text && !text.startsWith("The ")) yield { text, at: from };
    }
  }
}

function cellsOf(line, at, key) {
  const row = key.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const named = `The ${COLUMN} (?:of|on|at|in) ${row}`;
  const timed = `(?:(?:[OI]n|At) )?${row} (?:on|at|in) ${COLUMN}|(?:[OI]n|At) ${COLUMN} (?:on|at|in) ${row}`;
  const cells = new Map();
  const heads = [...line.matchAll(new RegExp(`(?<=^|\\. )(?:${named}|${timed}) is `, "g"))];
  if (heads[0]?.index !== 0) return null;
  for (const [place, head] of heads.entries()) {
    const column = head.slice(1).find(Boolean);
    const stop = heads[place + 1]?.index ?? line.length + 1;
    if (cells.has(column) || (head[1] === undefined && !WHEN.test(column))) return null;
    cells.set(column, [at + head.index + head[0].length, at + stop - 2]);
  }
  return cells;
}

/** Rows as a table; `piece(from, to)` are the nodes of a part of the text. */
function tableOf(rows, piece) {
  const columns = [...new Set(rows.flatMap(({ cells }) => [...cells.keys()]))];
  const head = ["", ...columns].map((column) => element("th", { scope: "col" }, capital(column)));
  const body = rows.map(({ key, cells }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, ...piece(...key)),
      ...columns.map((column) => element("td", {}, ...(cells.has(column) ? piece(...cells.get(column)) : []))),
    ),
  );
  return element("div", { class: "wide-table" }, element("table", {}, element("tr", {}, ...head), ...body));
}

/** Whether a row may be one of the table of others: it has one of their columns. */
function belongs(row, rows) {
  return rows.some(({ cells }) => [...row.cells.keys()].some((column) => cells.has(column)));
}

function capital(column) {
  return column.slice(0, 1).toUpperCase() + column.slice(1);
}
