// Rows of a table as the reader's text has them: "The price of Rope is 12. The length of Rope is 5." as cells again.

import { element } from "./elements.js";

// A longer paragraph is no row.
const LONGEST = 4_000;

/** Cells of a row by column, each with its place in the text: { key, cells: Map(column → [from, to]) }, or null. */
export function rowOf(line, at) {
  if (line.length > LONGEST || !line.startsWith("The ") || !line.endsWith(".")) return null;
  let best = null;
  for (const key of keysOf(line)) {
    const cells = cellsOf(line, at, key.text);
    if (cells !== null && (best === null || cells.size > best.cells.size)) {
      best = { key: [at + key.at, at + key.at + key.text.length], cells };
    }
  }
  return best;
}

/** What a row may be about: anything between an " of " and an " is " of its first sentence. */
function* keysOf(line) {
  const end = line.search(/\. The /);
  const first = end < 0 ? line : line.slice(0, end);
  for (const { index } of first.matchAll(/ of /g)) {
    for (const { index: until } of first.slice(index + 4).matchAll(/ is /g)) {
      if (until > 0) yield { text: first.slice(index + 4, index + 4 + until), at: index + 4 };
    }
  }
}

function cellsOf(line, at, key) {
  const mark = ` of ${key} is `;
  const cells = new Map();
  let from = 0;
  for (let middle = line.indexOf(mark); middle >= 0; ) {
    if (!line.startsWith("The ", from)) return null;
    const column = line.slice(from + 4, middle);
    const start = middle + mark.length;
    const next = line.indexOf(mark, start);
    const stop = next < 0 ? line.length : line.lastIndexOf(". The ", next) + 1;
    if (stop <= start || column.includes(". ") || cells.has(column)) return null;
    cells.set(column, [at + start, at + stop - 1]);
    from = stop + 1;
    middle = next;
  }
  return cells.size ? cells : null;
}

/** Rows as a table; `piece(from, to)` are the nodes of a part of the text. */
export function tableOf(rows, piece) {
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
export function belongs(row, rows) {
  return rows.some(({ cells }) => [...row.cells.keys()].some((column) => cells.has(column)));
}

function capital(column) {
  return column.slice(0, 1).toUpperCase() + column.slice(1);
}
