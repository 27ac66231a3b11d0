// Line charts of the last two minutes, drawn as SVG; colours come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, TOP, BOTTOM, RIGHT] = [132, 16, 18, 4];

/** A chart in an <svg>. `lines` are the classes of its lines; `written` formats a value. */
export class Chart {
  constructor(svg, span, lines, written) {
    Object.assign(this, { svg, span, lines, written, points: [] });
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  /** Add a point in time, in seconds, with one value or null per line. */
  add(time, values) {
    this.points.push({ time, values });
    this.points = this.points.filter((point) => point.time >= time - this.span);
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width) return;
    const now = this.points.at(-1)?.time ?? 0;
    const top = roundUp(Math.max(0, ...this.points.flatMap(({ values }) => values)));
    const x = (time) => (width - RIGHT) * (1 - (now - time) / this.span);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const parts = [0, 0.5, 1].flatMap((share) => [
      node("line", { class: "grid", x1: 0, x2: width, y1: y(share * top), y2: y(share * top) }),
      node("text", { class: "tick", x: 0, y: y(share * top) - 3 }, share ? this.written(share * top) : ""),
    ]);
    parts.push(
      node("text", { class: "tick", x: 0, y: HEIGHT - 4 }, `${this.span / 60} minutes ago`),
      node("text", { class: "tick end", x: width - RIGHT, y: HEIGHT - 4 }, "now"),
    );
    this.lines.forEach((line, which) => {
      const path = [];
      let isDrawing = false;
      for (const { time, values } of this.points) {
        const value = values[which];
        if (value !== null) {
          // A single point between two gaps is a dot: a path of length zero with round ends.
          const [move, dot] = isDrawing ? ["L", ""] : ["M", "h0"];
          path.push(`${move}${x(time).toFixed(1)} ${y(value).toFixed(1)}${dot}`);
        }
        isDrawing = value !== null;
      }
      parts.push(node("path", { class: `line ${line}`, d: path.join("") }));
    });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
  }
}

function node(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** The next number up with one digit of 1, 2 or 5, for an axis. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  return ten * [1, 2, 5, 10].find((step) => step * ten >= value * 0.999);
}
