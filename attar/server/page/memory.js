// A memory as a heat map: one row per phrase, name or dimension, one column per number.

import { byId } from "./elements.js";
import { bytes, count, counted } from "./figures.js";

// In pixels: the width of the row labels, and the maximum height without scrolling.
const [LABELS, HEIGHT] = [132, 400];
const HINT = "Point at a number, or use the arrow keys.";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Start the panel; it is hidden if the server returns no numbers. */
export function startMemory() {
  const [panel, canvas, here] = [byId("memory"), byId("memory-picture"), byId("memory-here")];
  const frame = byId("memory-frame");
  let memory = null;
  let at = null;

  /** Show the memory of a document; null hides the panel. */
  function show(document) {
    memory = at = null;
    panel.hidden = !document?.memory?.values?.length;
    if (panel.hidden) return;
    const { name, form, bytes: size, memory: picture } = document;
    memory = { ...picture, limit: limitOf(picture.values) };
    const unit = { phrases: "phrase", names: "name" }[form];
    const rows = unit ? counted(picture.rows, unit) : count(picture.rows);
    const kind = `${rows} × ${count(picture.columns)} numbers`;
    const isThinned = picture.values.length < picture.rows || picture.values[0].length < picture.columns;
    const question = form === "phrases" ? "is compared with each phrase" : "is one matrix product with it";
    byId("memory-line").textContent =
      `${kind} in ${bytes(size)}, written once; a question ${question}.` +
      (isThinned ? " Only a sample is shown." : "");
    canvas.setAttribute("aria-label", `The memory of ${name}: ${kind}`);
    here.textContent = HINT;
    const isSigned = picture.values.some((row) => row.some((value) => value < 0));
    byId("scale").classList.toggle("signed", isSigned);
    byId("scale-low").textContent = isSigned ? `−${memory.limit.toPrecision(2)}` : "0";
    byId("scale-high").textContent = memory.limit.toPrecision(2);
    draw();
  }

  /** The layout in pixels: labels on the left, one cell per number; cells are square without labels. */
  function shape() {
    const [rows, columns] = [memory.values.length, memory.values[0].length];
    const room = frame.clientWidth;
    if (!memory.labels.length) {
      const side = Math.min(room / columns, HEIGHT / rows);
      return { width: side * columns, height: side * rows, left: 0, cell: [side, side] };
    }
    const [left, line] = [Math.min(LABELS, room * 0.34), Math.min(22, Math.max(12, HEIGHT / rows))];
    return { width: room, height: rows * line, left, cell: [(room - left) / columns, line] };
  }

  function draw() {
    if (memory === null || panel.hidden) return;
    const { width, left, cell, height } = shape();
    const ratio = devicePixelRatio;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.inlineSize = `${width}px`;
    canvas.style.blockSize = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells(memory), left, 0, width - left, height);
    if (memory.labels.length) {
      context.fillStyle = colour("--ink");
      context.font = `${Math.min(13, cell[1] - 1)}px ${getComputedStyle(canvas).fontFamily}`;
      context.textBaseline = "middle";
      memory.labels.forEach((name, row) =>
        context.fillText(fitted(context, name, left - 10), 0, (row + 0.5) * cell[1]),
      );
    }
    if (at !== null) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 1.5;
      context.strokeRect(left + at[1] * cell[0], at[0] * cell[1], Math.max(cell[0], 3), cell[1]);
    }
  }

  function point(row, column) {
    const [rows, columns] = [memory.values.length, memory.values[0].length];
    at = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
    const whose = memory.labels.length ? memory.labels[at[0]] : `row ${count(at[0] + 1)}`;
    const value = memory.values[at[0]][at[1]].toPrecision(3).replace("-", "−");
    here.textContent = `${whose}, number ${at[1] + 1} of ${columns}: ${value}`;
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    const { left, cell } = shape();
    const { x, y } = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - x - left) / cell[0]);
    if (column >= 0) point(Math.floor((event.clientY - y) / cell[1]), column);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || memory === null) return;
    event.preventDefault();
    const [row, column] = at ?? [0, 0];
    point(row + (at ? step[0] : 0), column + (at ? step[1] : 0));
    const top = at[0] * shape().cell[1];
    if (top < frame.scrollTop || top + 22 > frame.scrollTop + frame.clientHeight) frame.scrollTop = top - 22;
  });
  new ResizeObserver(draw).observe(frame);
  document.addEventListener("themechange", draw);

  return { show };
}

/** The absolute value with the full colour: the 98th percentile. */
function limitOf(values) {
  const sizes = values.flat().map(Math.abs).sort((one, other) => one - other);
  return sizes[Math.floor((sizes.length - 1) * 0.98)] || 1;
}

/** The numbers as an image, one pixel each. */
function cells({ values, limit }) {
  const [rows, columns] = [values.length, values[0].length];
  const canvas = new OffscreenCanvas(columns, rows);
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const [none, above, below] = ["--none", "--accent", "--below"].map((name) => channels(colour(name)));
  values.flat().forEach((value, place) => {
    const strength = Math.min(1, Math.abs(value) / limit);
    const full = value < 0 ? below : above;
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[place * 4 + channel] = none[channel] + (full[channel] - none[channel]) * strength;
    }
    image.data[place * 4 + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A colour of the style sheet in the current theme. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

function channels(rgb) {
  return rgb.match(/[\d.]+/g).map(Number);
}

/** A name cut to a width, with an ellipsis. */
function fitted(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  let kept = name;
  while (kept && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}
