// A document's text as a person reads it: headings, tables and paragraphs, with the phrase of an answer marked.

import { element } from "./elements.js";
import { belongs, rowOf, tableOf } from "./tables.js";

const PARAGRAPH_END = /\n[ \t\r]*\n\s*/g;
// A line that was broken because it was full, and goes on.
const FULL_LINE = /([^\n]{60,140})(\r?\n)(?=\S)(?![-*•–] |\d+[.)] )/g;
// A heading is one short line that does not end as a sentence does.
const HEADING = /^(?!.*[.!?;,:]$)[^\n\t]{2,80}$/;
// "Total: 40 euros", a line of a form.
const FIELD = /^([^:\n]{1,40}):[ \t]+(.+)$/;
// What separates the cells of a row.
const CELLS = /\t+| \| /g;

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
    else if (until > at) made.push(block(flowing, at, until, piece, gap !== null));
    at = gap === null ? to : until + gap[0].length;
  }
  endTable();
  return made;
}

function block(text, at, until, piece, isFollowed) {
  const written = text.slice(at, until);
  const lines = linesOf(written, at);
  if (isFollowed && HEADING.test(written.trim())) return element("h3", {}, ...piece(at, until));
  if (lines.length > 1 && lines.every(({ line }) => FIELD.test(line))) {
    return table(lines.map((row) => fieldCells(row, piece)));
  }
  const rows = lines.map((row) => cells(row, piece));
  if (rows.length > 1 && rows[0].length > 1 && rows.every(({ length }) => length === rows[0].length)) {
    return table(rows, true);
  }
  return element("p", {}, ...piece(at, until));
}

function linesOf(written, at) {
  const found = [];
  for (const { 0: line, index } of written.matchAll(/[^\n]+/g)) {
    if (line.trim()) found.push({ line: line.trimEnd(), at: at + index });
  }
  return found;
}

function fieldCells({ line, at }, piece) {
  const [, label, value] = FIELD.exec(line);
  const from = line.length - value.length;
  return [
    element("th", { scope: "row" }, ...piece(at, at + label.length)),
    element("td", {}, ...piece(at + from, at + line.length)),
  ];
}

/** The cells of a row, as elements. */
function cells({ line, at }, piece) {
  const made = [];
  let from = 0;
  for (const gap of [...line.matchAll(CELLS), null]) {
    const until = gap === null ? line.length : gap.index;
    made.push(element("td", {}, ...piece(at + from, at + until)));
    from = gap === null ? until : until + gap[0].length;
  }
  return made;
}

function table(rows, hasHead = false) {
  const [first, ...rest] = rows.map((row) => element("tr", {}, ...row));
  if (hasHead) {
    first.replaceChildren(...rows[0].map((cell) => element("th", { scope: "col" }, ...cell.childNodes)));
  }
  return element("div", { class: "wide-table" }, element("table", {}, first, ...rest));
}
