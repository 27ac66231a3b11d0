// Parsing Prometheus's text format: samples, sums of counters, and quantiles of histograms.

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a text: name, labels, value. */
export function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (!found) continue;
    const pairs = [...(found[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]);
    const labels = Object.fromEntries(pairs);
    samples.push({ name: found[1], labels, value: number(found[3]) });
  }
  return samples;
}

/** The sum of all samples of a name whose labels `match`. */
export function total(samples, name, match = () => true) {
  return samples
    .filter((sample) => sample.name === name && match(sample.labels))
    .reduce((sum, { value }) => sum + value, 0);
}

/** A histogram's buckets, summed over other labels: [upper bound, count up to it], smallest first. */
export function buckets(samples, name, match = () => true) {
  const sums = new Map();
  for (const { name: whose, labels, value } of samples) {
    if (whose !== `${name}_bucket` || !match(labels)) continue;
    const bound = number(labels.le);
    sums.set(bound, (sums.get(bound) ?? 0) + value);
  }
  return [...sums].sort(([one], [other]) => one - other);
}

/** The quantile of the observations between two readings of a histogram; null if there are none. */
export function quantile(before, after, share) {
  const past = new Map(before);
  const gained = after.map(([bound, value]) => [bound, value - (past.get(bound) ?? 0)]);
  const all = gained.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  const wanted = share * all;
  let [low, below] = [0, 0];
  for (const [bound, value] of gained) {
    if (value >= wanted) {
      if (bound === Infinity) return low;
      return low + ((bound - low) * (wanted - below)) / Math.max(value - below, 1e-9);
    }
    [low, below] = [bound, value];
  }
  return low;
}

function number(written) {
  return written === "+Inf" ? Infinity : Number(written);
}
